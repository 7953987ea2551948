// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

namespace hbmwire::memory::dmabuf {

/// Tells one buffer, and one way of opening it, from another, whatever the descriptors' numbers.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  int mode = 0;  // of fcntl(F_GETFL): what may be done with it

  auto operator<=>(const Identity&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// Errors: Stage::open: not a descriptor, or not one of a dma-buf as far as that shows before a NIC
/// sees it.
Result<Identity> identify(int fd);

/// A descriptor of our own, and what the kernel tells of what it stands for.
struct Descriptor {
  std::shared_ptr<const Fd> fd;
  std::uint64_t size_bytes = 0;
  bool writable = true;
};

/// Our own descriptors of what the application brings: one a buffer, however often it is imported.
/// Thread-safe.
class Descriptors {
 public:
  /// Errors: as identify(), and no more descriptors.
  Result<Descriptor> duplicate(int fd);

 private:
  Result<std::shared_ptr<const Fd>> own(int fd, const Identity& identity);

  std::mutex mutex_;
  std::map<Identity, std::weak_ptr<const Fd>> open_;
};

}  // namespace hbmwire::memory::dmabuf
