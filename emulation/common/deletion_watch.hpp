// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

namespace hbmwire::emulation {

/// How an exporter learns that the last reference to one of its dma-bufs is gone: the kernel says
/// so by inotify (IN_DELETE_SELF of an unlinked memfd comes with its inode's end), whoever held it
/// and however it ended.
///
/// Not thread-safe. A forked child inherits the inotify instance and shares its queue.
class DeletionWatch {
 public:
  /// Makes the inotify instance unless there is one. 0 or -errno.
  int start();
  /// Closes this process's instance; files that were watched by it could no longer be noticed.
  void stop();

  /// Watches an unlinked file; the watch descriptor or -errno.
  [[nodiscard]] int add(int memfd) const;

  /// The watch descriptors of the files that are gone since the last call.
  [[nodiscard]] std::vector<int> gone() const;

  [[nodiscard]] int fd() const { return fd_; }

  /// Of this instance, among all processes; 0 without one.
  [[nodiscard]] std::uint64_t id() const { return id_; }

 private:
  int fd_ = -1;
  std::uint64_t id_ = 0;
};

}  // namespace hbmwire::emulation
