// SPDX-License-Identifier: MIT
#include "emulation/rocm/hip/hip_refusal.hpp"

#include <string_view>

#include "emulation/rocm/hip/runtime.hpp"

namespace hbmwire::emulation::rocm {

namespace {

constexpr const char* kHipLibrary = "libamdhip64.so.7";

/// Whether a function returns a pointer instead of a status: names of functions and kernels, and
/// functions that compiled kernels call before main().
bool returns_pointer(std::string_view name) {
  return name.starts_with("__hip") || name.starts_with("hipKernelNameRef") || name == "hipApiName";
}

}  // namespace

std::intptr_t refuse(NotModelled& function, std::intptr_t /*first*/) noexcept {
  if (returns_pointer(function.name)) {
    say_not_modelled(kHipLibrary, function, "null");
    return 0;
  }
  return hip_entry_point(function.name, [&](HipRuntime&) {
    say_not_modelled(kHipLibrary, function, "hipErrorNotSupported");
    return hipErrorNotSupported;
  });
}

}  // namespace hbmwire::emulation::rocm
