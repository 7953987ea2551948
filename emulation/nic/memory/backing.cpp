// SPDX-License-Identifier: MIT
#include "emulation/nic/memory/backing.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "emulation/common/export_descriptor.hpp"

namespace hbmwire::emulation::nic {
namespace {

struct Table {
  using Key = std::tuple<dev_t, ino_t, bool>;
  std::mutex mutex;
  // Weak: a live mapping or descriptor keeps its inode from being reused, so a key that still
  // resolves is the same file.
  std::map<Key, std::weak_ptr<Backing>> backings;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Reference>> references;
};

/// Never destroyed: senders of other threads may outlive the statics.
Table& table() {
  static auto* const only = new Table;
  return *only;
}

std::string proc_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

bool could_be_dmabuf(int fd) {
  struct statfs filesystem {};

  if (::fstatfs(fd, &filesystem) != 0) return false;
  const auto type = static_cast<std::uint64_t>(filesystem.f_type);
  return type == TMPFS_MAGIC || type == HUGETLBFS_MAGIC || type == DMA_BUF_MAGIC;
}

int import_export_descriptor(int fd, bool writable, std::uint64_t size, Import& import) {
  const int content = ::open(proc_path(fd).c_str(), O_RDONLY | O_CLOEXEC);
  if (content < 0) return EINVAL;
  ExportDescriptor descriptor;
  const ssize_t got = ::pread(content, &descriptor, sizeof descriptor, 0);
  ::close(content);
  const bool valid =
      got == static_cast<ssize_t>(sizeof descriptor) &&
      descriptor.magic == ExportDescriptor::kMagic && descriptor.length_bytes <= size &&
      std::memchr(descriptor.backing_path, 0, sizeof descriptor.backing_path) != nullptr &&
      std::memchr(descriptor.posted_path, 0, sizeof descriptor.posted_path) != nullptr;
  if (!valid) return EINVAL;
  const int file = ::open(descriptor.backing_path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (file < 0) return errno == EACCES ? EACCES : EINVAL;
  import.backing = Backing::of_fd(file, writable);
  if (!import.backing) return errno;
  import.posted_path = descriptor.posted_path;
  import.offset_bytes = descriptor.offset_bytes;
  import.length_bytes = descriptor.length_bytes;
  const std::uint64_t file_size = import.backing->size();
  import.reference = Reference::to(fd);
  if (!import.reference) return errno;
  const bool inside =
      import.offset_bytes <= file_size && import.length_bytes <= file_size - import.offset_bytes;
  return inside ? 0 : EINVAL;
}

}  // namespace

std::shared_ptr<Backing> Backing::of_fd(int fd, bool writable) {
  struct stat status {};

  if (::fstat(fd, &status) != 0 || status.st_size <= 0) {
    ::close(fd);
    errno = EINVAL;
    return nullptr;
  }
  Table& all = table();
  const std::lock_guard guard(all.mutex);
  const Table::Key key{status.st_dev, status.st_ino, writable};
  if (const auto found = all.backings.find(key); found != all.backings.end()) {
    // A file that has grown since needs a longer mapping; the old one serves its own users until
    // they are gone.
    if (auto known = found->second.lock();
        known && known->size() == static_cast<std::uint64_t>(status.st_size)) {
      ::close(fd);
      return known;
    }
    all.backings.erase(found);
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  void* mapping = ::mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                         MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (mapping == MAP_FAILED) {
    const int error = errno;
    ::close(fd);
    errno = error;
    return nullptr;
  }
  ::madvise(mapping, size, MADV_DONTDUMP);
  ::madvise(mapping, size, MADV_DONTFORK);  // a card's memory is not for the child to have
  std::shared_ptr<Backing> backing(new Backing(fd, static_cast<std::byte*>(mapping), size));
  std::erase_if(all.backings, [](const auto& entry) { return entry.second.expired(); });
  all.backings[key] = backing;
  return backing;
}

Backing::~Backing() {
  ::munmap(base_, size_);
  ::close(fd_);
}

std::shared_ptr<Reference> Reference::to(int fd) {
  struct stat status {};

  if (::fstat(fd, &status) != 0) return nullptr;
  Table& all = table();
  const std::lock_guard guard(all.mutex);
  auto& known = all.references[{status.st_dev, status.st_ino}];
  if (auto reference = known.lock()) return reference;
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return nullptr;
  std::shared_ptr<Reference> reference(new Reference(copy));
  known = reference;
  std::erase_if(all.references, [](const auto& entry) { return entry.second.expired(); });
  return reference;
}

Reference::~Reference() { ::close(fd_); }

int import_dmabuf(int fd, bool writable, Import& import) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return EBADF;

  struct stat status {};

  if (::fstat(fd, &status) != 0) return EBADF;
  if (!could_be_dmabuf(fd) || !S_ISREG(status.st_mode) || status.st_size <= 0) return EINVAL;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if ((flags & O_PATH) != 0) return import_export_descriptor(fd, writable, size, import);
  if (writable && (flags & O_ACCMODE) != O_RDWR) return EACCES;
  const int file = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (file < 0) return errno;
  import.backing = Backing::of_fd(file, writable);
  if (!import.backing) return errno;
  import.length_bytes = size;
  return 0;
}

}  // namespace hbmwire::emulation::nic
