// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation {

/// What the kernel says of a thread, by its id: man 5 proc, /proc/[pid]/stat.
struct ThreadStatus {
  bool is_gone = false;       ///< there is none of that id
  char state = 0;             ///< as proc has it ('R', 'S', 'T', 'Z', ...); 0: not known
  std::uint32_t started = 0;  ///< low bits of the time when it began, in the kernel's ticks
};

ThreadStatus thread_status(std::int32_t thread) noexcept;

}  // namespace hbmwire::emulation
