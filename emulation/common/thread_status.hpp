// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation {

/// The kernel's information about a thread, by its id: man 5 proc, /proc/[pid]/stat.
struct ThreadStatus {
  bool is_gone = false;       ///< there is no thread with that id
  char state = 0;             ///< as in /proc ('R', 'S', 'T', 'Z', ...); 0: not known
  std::uint32_t started = 0;  ///< low bits of its start time, in the kernel's ticks
};

ThreadStatus thread_status(std::int32_t thread) noexcept;

}  // namespace hbmwire::emulation
