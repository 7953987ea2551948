// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/common/not_modelled.hpp"

namespace hbmwire::emulation::gaudi {

/// Returns -EOPNOTSUPP, or the driver's error if the file descriptor `first` is wrong.
std::intptr_t refuse(NotModelled& function, std::intptr_t first) noexcept;

}  // namespace hbmwire::emulation::gaudi

using hbmwire::emulation::gaudi::refuse;
