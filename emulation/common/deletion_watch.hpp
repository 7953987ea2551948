// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

namespace hbmwire::emulation {

/// Tells an exporter that the last reference to one of its dma-bufs is gone. The kernel reports it
/// by inotify: IN_DELETE_SELF of an unlinked memfd comes when its inode is freed, regardless of
/// which process had it and how that process ended.
///
/// Not thread-safe. A forked child inherits the inotify instance and shares its queue.
class DeletionWatch {
 public:
  /// Makes the inotify instance unless there is one. Returns 0 or -errno.
  int start();
  /// Closes this process's instance, which ends all its watches.
  void stop();

  /// Watches an unlinked file. Returns the watch descriptor or -errno.
  [[nodiscard]] int add(int memfd) const;

  /// The watch descriptors of files that have gone since the last call.
  [[nodiscard]] std::vector<int> gone() const;

  [[nodiscard]] int fd() const { return fd_; }

  /// Identifies this instance among all processes; 0 if there is none.
  [[nodiscard]] std::uint64_t id() const { return id_; }

 private:
  int fd_ = -1;
  std::uint64_t id_ = 0;
};

}  // namespace hbmwire::emulation
