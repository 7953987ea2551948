// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <string_view>

#include "hbmwire/error.hpp"

#include "base/memory_room.hpp"

namespace hbmwire {

/// The error of pthread_create(3). EAGAIN stands for a limit of threads, or for no memory for the
/// stack.
[[nodiscard]] inline Error thread_failure(Stage stage, int error_number,
                                          std::string_view subject = {}) noexcept {
  constexpr std::uint64_t kStackBytes = std::uint64_t{8} << 20U;  // `ulimit -s` of most systems
  Hint hint = Hint::none;
  if (error_number == EAGAIN) {
    hint = memory_hint(Memory::any, kStackBytes);
    if (hint == Hint::host_memory_exhausted) hint = Hint::process_limit;
  }
  return system_error(stage, "pthread_create", error_number, subject, hint);
}

}  // namespace hbmwire
