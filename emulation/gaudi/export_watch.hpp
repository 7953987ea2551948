// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/gaudi/card_state.hpp"

namespace hbmwire::emulation::gaudi {

/// How a card learns that the last reference to one of its dma-bufs is gone: the kernel says so by
/// inotify (IN_DELETE_SELF of an unlinked memfd comes with its inode's end), whoever held it and
/// however it ended.
///
/// One per card and process, every member under the card's lock. A forked child inherits the
/// inotify instance and shares its queue: whichever process reads an event records it in the state
/// that both share.
class ExportWatch {
 public:
  /// Makes the inotify instance unless there is one. 0 or -errno.
  int start();
  /// Closes this process's instance; exports that were watched by it could no longer be noticed.
  void stop();

  /// Watches an unlinked file; the watch descriptor or -errno.
  int add(int memfd) const;

  /// Reads what has happened and marks the dead exports. Returns how many live.
  std::uint64_t collect(StateContent& content) const;

  [[nodiscard]] int fd() const { return fd_; }

  [[nodiscard]] std::uint64_t id() const { return id_; }

 private:
  void read_events(StateContent& content) const;

  int fd_ = -1;
  std::uint64_t id_ = 0;
};

}  // namespace hbmwire::emulation::gaudi
