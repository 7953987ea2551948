// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation {

/// Whether a process or thread of this machine is stopped, by a signal or a debugger. False if it
/// does not exist.
bool is_stopped(std::int32_t id) noexcept;

}  // namespace hbmwire::emulation
