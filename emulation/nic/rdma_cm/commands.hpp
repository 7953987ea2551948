// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "emulation/nic/rdma_cm/cm.hpp"

namespace hbmwire::emulation::nic {

/// An event channel as a file: which one, and by which descriptor the command came.
struct ChannelFile {
  std::uint32_t channel = 0;
  int fd = -1;
};

/// Finds the channel that another descriptor stands for; `channel` 0 when it is none.
using FindChannel = std::function<ChannelFile(int fd)>;

/// Does what the kernel's ucma does with a write() to /dev/infiniband/rdma_cm: `size`, or a
/// negative errno.
ssize_t execute_command(Cm& cm, const ChannelFile& file, const void* data, std::size_t size,
                        const FindChannel& find_channel);

}  // namespace hbmwire::emulation::nic
