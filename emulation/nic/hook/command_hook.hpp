// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace hbmwire::emulation::nic {

class ContextState;

/// Answers the commands that libibverbs itself sends to the kernel. It asks for a completion
/// channel by write() to the device's file, which a provider cannot override. The file is /dev/null
/// here, so the plugin redirects libibverbs' own import of write(). Writes that are not commands
/// for one of our devices go to the real write(). Returns false if that is impossible.
bool install_command_hook();

void register_command_fd(int fd, ContextState* context);
void unregister_command_fd(int fd);

/// The number of open completion channels of all contexts.
std::size_t count_channels();

}  // namespace hbmwire::emulation::nic
