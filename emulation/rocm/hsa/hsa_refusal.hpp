// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/common/not_modelled.hpp"

namespace hbmwire::emulation::rocm {

/// HSA_STATUS_ERROR_NOT_SUPPORTED, or before it what any function of ROCr checks first.
std::intptr_t refuse(NotModelled& function, std::intptr_t first) noexcept;

}  // namespace hbmwire::emulation::rocm

using hbmwire::emulation::rocm::refuse;
