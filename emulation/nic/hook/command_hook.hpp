// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace hbmwire::emulation::nic {

class ContextState;

/// libibverbs itself asks the kernel for a completion channel, by write() to the device's file, and
/// a provider can't override that. The file being /dev/null, the plugin answers in its place:
/// libibverbs' own import of write() is redirected, and what is not a command of one of our devices
/// goes on to the real one. False: it can't be done.
bool install_command_hook();

void register_command_fd(int fd, ContextState* context);
void unregister_command_fd(int fd);

/// Open completion channels of all contexts.
std::size_t count_channels();

}  // namespace hbmwire::emulation::nic
