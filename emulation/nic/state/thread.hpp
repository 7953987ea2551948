// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::emulation::nic {

/// Runs `body(argument)` in a thread of its own until the process ends, with every signal blocked:
/// the application's signals are for the application's threads. False when no thread is to be had.
bool start_thread(const char* name, void (*body)(void*), void* argument) noexcept;

}  // namespace hbmwire::emulation::nic
