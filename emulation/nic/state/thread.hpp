// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::emulation::nic {

/// Runs `body(argument)` in a new thread until the process ends. All signals are blocked in it,
/// because the application's signals are for the application's threads. Returns false if the thread
/// cannot be created.
bool start_thread(const char* name, void (*body)(void*), void* argument) noexcept;

}  // namespace hbmwire::emulation::nic
