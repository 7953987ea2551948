// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/common/not_modelled.hpp"

namespace hbmwire::emulation::rocm {

/// Returns HSA_STATUS_ERROR_NOT_SUPPORTED, or the error of the checks that every function of ROCr
/// makes first.
std::intptr_t refuse(NotModelled& function, std::intptr_t first) noexcept;

}  // namespace hbmwire::emulation::rocm

using hbmwire::emulation::rocm::refuse;
