// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/abi/layout.hpp"

namespace hbmwire::emulation::nic {

/// The provider's operations, as the loaded libibverbs reads them; libibverbs answers EOPNOTSUPP to
/// the rest.
const abi::Entry* operations();

}  // namespace hbmwire::emulation::nic
