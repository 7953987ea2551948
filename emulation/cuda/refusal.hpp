// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/common/not_modelled.hpp"

namespace hbmwire::emulation::cuda {

/// Returns CUDA_ERROR_NOT_SUPPORTED, or the error of the checks that every function of the driver
/// makes first.
std::intptr_t refuse(NotModelled& function, std::intptr_t first) noexcept;

}  // namespace hbmwire::emulation::cuda

using hbmwire::emulation::cuda::refuse;
