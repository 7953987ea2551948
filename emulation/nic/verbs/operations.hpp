// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/abi/provider_abi_34.hpp"

namespace hbmwire::emulation::nic {

/// What the provider implements; libibverbs answers EOPNOTSUPP to the rest.
const abi::Operations& operations();

}  // namespace hbmwire::emulation::nic
