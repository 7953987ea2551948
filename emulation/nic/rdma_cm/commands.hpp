// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "emulation/nic/rdma_cm/cm.hpp"

namespace hbmwire::emulation::nic {

/// An event channel, and the descriptor through which a command came.
struct ChannelFile {
  std::uint32_t channel = 0;
  int fd = -1;
};

/// Finds the channel of another descriptor. `channel` is 0 if the descriptor is not an event
/// channel.
using FindChannel = std::function<ChannelFile(int fd)>;

/// Executes a command as the kernel's ucma does for a write() to /dev/infiniband/rdma_cm. Returns
/// `size` or a negative errno.
ssize_t execute_command(Cm& cm, const ChannelFile& file, const void* data, std::size_t size,
                        const FindChannel& find_channel);

}  // namespace hbmwire::emulation::nic
