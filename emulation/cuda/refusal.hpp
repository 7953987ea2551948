// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/common/not_modelled.hpp"

namespace hbmwire::emulation::cuda {

/// CUDA_ERROR_NOT_SUPPORTED, or before it what any function of the driver checks first.
std::intptr_t refuse(NotModelled& function, std::intptr_t first) noexcept;

}  // namespace hbmwire::emulation::cuda

using hbmwire::emulation::cuda::refuse;
