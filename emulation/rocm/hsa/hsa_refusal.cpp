// SPDX-License-Identifier: MIT
#include "emulation/rocm/hsa/hsa_refusal.hpp"

#include <string_view>

#include "emulation/rocm/hsa/session.hpp"

namespace hbmwire::emulation::rocm {

namespace {

constexpr const char* kHsaLibrary = "libhsa-runtime64.so.1";

/// Whether a function reads or changes one of the two indices of a queue: it returns an index, or
/// nothing.
bool returns_index(std::string_view name) {
  return name.starts_with("hsa_queue_") && name.find("_index_") != std::string_view::npos;
}

}  // namespace

std::intptr_t refuse(NotModelled& function, std::intptr_t /*first*/) noexcept {
  if (returns_index(function.name)) {
    say_not_modelled(kHsaLibrary, function, "0");
    return 0;
  }
  return entry_point(function.name, [&](Session&) {
    say_not_modelled(kHsaLibrary, function, "HSA_STATUS_ERROR_NOT_SUPPORTED");
    return HSA_STATUS_ERROR_NOT_SUPPORTED;
  });
}

}  // namespace hbmwire::emulation::rocm
