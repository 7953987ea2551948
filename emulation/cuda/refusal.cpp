// SPDX-License-Identifier: MIT
#include "emulation/cuda/refusal.hpp"

#include "emulation/cuda/runtime.hpp"

namespace hbmwire::emulation::cuda {

std::intptr_t refuse(NotModelled& function, std::intptr_t /*first*/) noexcept {
  return entry_point(function.name, [&](Runtime&) {
    say_not_modelled("libcuda.so.1", function, "CUDA_ERROR_NOT_SUPPORTED");
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}

}  // namespace hbmwire::emulation::cuda
