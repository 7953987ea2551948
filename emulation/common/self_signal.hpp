// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation {

/// Sends SIGKILL to this process.
[[noreturn]] void kill_this_process() noexcept;

/// Sends SIGSTOP to this process, which stops all its threads. Returns after the process was
/// continued. With `for_ns` != 0 a child continues it after that time. The application does not
/// notice the child: it sends no SIGCHLD, holds no descriptor, and dies with this process.
void stop_this_process(std::uint64_t for_ns) noexcept;

}  // namespace hbmwire::emulation
