// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include <vector>

#include "emulation/nic/state/fifo.hpp"

namespace hbmwire::emulation::nic {

template <typename Record, typename Drop>
std::uint32_t Fifos::filter(std::uint32_t slot, std::uint64_t channel, Drop drop) {
  const std::lock_guard guard(filter_mutex_);
  const int fd = [&] {
    const std::lock_guard ends(mutex_);
    return open_end_at_any_price(slot, channel);
  }();
  if (fd < 0) return 0;
  std::vector<Record> kept;
  std::uint32_t dropped = 0;
  Record record{};
  // A pipe passes whole records: every write is one record, far below PIPE_BUF.
  while (::read(fd, &record, sizeof record) == static_cast<ssize_t>(sizeof record)) {
    if (drop(record)) {
      ++dropped;
    } else {
      kept.push_back(record);
    }
  }
  for (const Record& back : kept) {
    // There was room before the read. If others have filled it since, wait for the reader.
    while (::write(fd, &back, sizeof back) < 0 && errno == EAGAIN) usleep(100);
  }
  ::close(fd);
  const std::lock_guard ends(mutex_);
  keep_reserve();
  return dropped;
}

}  // namespace hbmwire::emulation::nic
