// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation {

/// Whether a process or thread of this machine is stopped: by a signal, or by a debugger. False for
/// one that is not there.
bool is_stopped(std::int32_t id) noexcept;

}  // namespace hbmwire::emulation
