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

/// Identifies a buffer and the mode in which it was opened, whatever the descriptor's number is.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  int mode = 0;  // fcntl(F_GETFL): the permitted accesses

  auto operator<=>(const Identity&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// Errors: Stage::open (not a descriptor, or not a dma-buf's, as far as that shows before a NIC
/// uses it).
Result<Identity> identify(int fd);

/// Our own descriptor of a dma-buf, and the kernel's answers about the buffer.
struct Descriptor {
  std::shared_ptr<const Fd> fd;
  std::uint64_t size_bytes = 0;
  bool writable = true;
};

/// Our own descriptors of the dma-bufs that the application brings: one for each buffer, however
/// often it is imported. Thread-safe.
class Descriptors {
 public:
  /// Errors: those of identify(), and a shortage of descriptors.
  Result<Descriptor> duplicate(int fd);

 private:
  Result<std::shared_ptr<const Fd>> own(int fd, const Identity& identity);

  std::mutex mutex_;
  std::map<Identity, std::weak_ptr<const Fd>> open_;
};

}  // namespace hbmwire::memory::dmabuf
