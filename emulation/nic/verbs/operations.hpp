// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/abi/layout.hpp"

namespace hbmwire::emulation::nic {

/// The provider's operations, in the layout of the loaded libibverbs. libibverbs answers the others
/// with EOPNOTSUPP.
const abi::Entry* operations();

}  // namespace hbmwire::emulation::nic
