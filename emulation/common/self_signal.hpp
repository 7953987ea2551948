// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation {

/// SIGKILL to this process.
[[noreturn]] void kill_this_process() noexcept;

/// SIGSTOP to this process, all of its threads; returns when it was continued: by anybody, and with
/// `for_ns` != 0 after that time by a child that nobody sees: it sends no SIGCHLD, holds no
/// descriptor, and dies with this process.
void stop_this_process(std::uint64_t for_ns) noexcept;

}  // namespace hbmwire::emulation
