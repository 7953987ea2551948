// SPDX-License-Identifier: MIT
#include "memory/dmabuf/descriptor.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace hbmwire::memory::dmabuf {

namespace {

Error no_dmabuf(const char* what) {
  return make_error(Errc::invalid_argument, Stage::open, what, "dmabuf", Hint::not_a_dmabuf);
}

/// The size of the dma-buf; 0 if it has none.
std::uint64_t size_of(int fd, const struct stat& status) {
  if (status.st_size > 0) return static_cast<std::uint64_t>(status.st_size);
  // Kernels before 5.3 reported a dma-buf's size only here.
  const off_t end = ::lseek(fd, 0, SEEK_END);
  return end > 0 ? static_cast<std::uint64_t>(end) : 0;
}

/// The kernel's answers about a descriptor that may be a dma-buf's.
struct Seen {
  Identity identity;
  std::uint64_t size_bytes = 0;
};

Result<Seen> look_at(int fd) {
  struct stat status {};

  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fstat(fd, &status) != 0) {
    return tl::make_unexpected(
        system_error(Stage::open, "fcntl(F_GETFL)", errno, "dmabuf", Hint::not_a_dmabuf));
  }
  // A dma-buf has an anonymous inode, whose type is a plain file or none at all.
  const mode_t kind = status.st_mode & S_IFMT;
  const std::uint64_t size = size_of(fd, status);
  if ((kind != 0 && kind != S_IFREG) || size == 0)
    return tl::make_unexpected(no_dmabuf("the descriptor is no dma-buf's"));
  return Seen{{status.st_dev, status.st_ino, flags & (O_ACCMODE | O_PATH)}, size};
}

}  // namespace

Result<Identity> identify(int fd) {
  HBMWIRE_TRY_ASSIGN(const Seen seen, look_at(fd));
  return seen.identity;
}

Result<Descriptor> Descriptors::duplicate(int fd) {
  HBMWIRE_TRY_ASSIGN(const Seen seen, look_at(fd));
  // A descriptor that tells no access mode (O_PATH) is left to the NIC to judge.
  const bool writable =
      (seen.identity.mode & O_PATH) != 0 || (seen.identity.mode & O_ACCMODE) == O_RDWR;
  HBMWIRE_TRY_ASSIGN(auto own_fd, own(fd, seen.identity));
  return Descriptor{std::move(own_fd), seen.size_bytes, writable};
}

Result<std::shared_ptr<const Fd>> Descriptors::own(int fd, const Identity& identity) {
  const std::scoped_lock lock(mutex_);
  // An open descriptor keeps its inode alive, so a known inode is still the same buffer.
  if (const auto found = open_.find(identity); found != open_.end()) {
    if (auto known = found->second.lock()) return known;
  }
  // 3: not one of the descriptors 0 to 2, to which a library's careless printf would write.
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy) {
    return tl::make_unexpected(
        system_error(Stage::open, "fcntl(F_DUPFD_CLOEXEC)", errno, "dmabuf"));
  }
  auto shared = std::make_shared<const Fd>(std::move(copy));
  std::erase_if(open_, [](const auto& entry) { return entry.second.expired(); });
  open_[identity] = shared;
  return shared;
}

}  // namespace hbmwire::memory::dmabuf
