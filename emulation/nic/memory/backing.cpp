// SPDX-License-Identifier: MIT
#include "emulation/nic/memory/backing.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "emulation/common/export_descriptor.hpp"
#include "emulation/common/owned_fd.hpp"
#include "emulation/nic/state/null_with.hpp"

namespace hbmwire::emulation::nic {
namespace {

using Key = std::tuple<dev_t, ino_t, bool>;

struct Mapping {
  Key key;
  std::byte* base = nullptr;
  std::uint64_t size = 0;
};

/// Mappings, with their page tables, that no MR needs any more. If the same file is registered
/// again (by a pool of buffers, or a cache that was too small), its pages need not be faulted in
/// again. A mapping holds no descriptor, but keeps the memory of its file. For a file with a name
/// that costs nothing extra. For a memfd it may, so memfds are kept only up to kMostBytes in total.
class Retired {
 public:
  /// Takes over a mapping. Unmaps it, or older ones, if there is no room.
  void add(const Mapping& mapping, bool has_name) {
    Entry entry{mapping, has_name ? 0 : mapping.size};
    if (entry.held_bytes > kMostBytes) {
      ::munmap(mapping.base, mapping.size);
      return;
    }
    held_bytes_ += entry.held_bytes;
    std::swap(entries_[next_], entry);
    drop(entry);  // the oldest one, which had this place
    for (std::size_t i = 1; held_bytes_ > kMostBytes; ++i)
      drop(entries_[(next_ + i) % entries_.size()]);
    next_ = (next_ + 1) % entries_.size();
  }

  /// Gives back the mapping of that file if it has that size. Unmaps mappings of the file with
  /// other sizes.
  std::byte* take(const Key& key, std::uint64_t size) {
    for (Entry& entry : entries_) {
      if (entry.mapping.base == nullptr || entry.mapping.key != key) continue;
      if (entry.mapping.size == size) {
        held_bytes_ -= entry.held_bytes;
        return std::exchange(entry, {}).mapping.base;
      }
      drop(entry);
    }
    return nullptr;
  }

 private:
  struct Entry {
    Mapping mapping;
    std::uint64_t held_bytes = 0;  // memory that may exist only because of this mapping
  };

  static constexpr std::uint64_t kMostBytes = 64ULL << 20U;

  void drop(Entry& entry) {
    if (entry.mapping.base == nullptr) return;
    ::munmap(entry.mapping.base, entry.mapping.size);
    held_bytes_ -= entry.held_bytes;
    entry = {};
  }

  std::array<Entry, 8> entries_{};
  std::size_t next_ = 0;  // the oldest
  std::uint64_t held_bytes_ = 0;
};

struct Table {
  std::mutex mutex;
  // Weak references suffice: a mapping or a descriptor keeps its inode from being reused, so a key
  // that still resolves means the same file.
  std::map<Key, std::weak_ptr<Backing>> backings;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Reference>> references;
  Retired retired;
};

std::atomic<Table*> g_table{nullptr};

/// Never destroyed, because senders of other threads may outlive static objects. A forked child has
/// none of the mappings and starts with an empty table.
Table& table() {
  static const int kRegistered = [] {
    g_table.store(new Table);
    return pthread_atfork(nullptr, nullptr, [] { g_table.store(new Table); });
  }();
  static_cast<void>(kRegistered);
  return *g_table.load();
}

/// Returns null with errno on failure.
std::byte* map_file(int fd, std::uint64_t size, bool writable) {
  void* mapping = ::mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                         MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (mapping == MAP_FAILED) return nullptr;
  ::madvise(mapping, size, MADV_DONTDUMP);
  ::madvise(mapping, size, MADV_DONTFORK);  // a child must not have a card's memory
  return static_cast<std::byte*>(mapping);
}

/// Copies of descriptors leave the numbers of the standard streams free.
constexpr int kFirstOwnFd = 3;

std::string proc_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

std::uint64_t file_system_of(int fd) {
  struct statfs filesystem {};

  return ::fstatfs(fd, &filesystem) == 0 ? static_cast<std::uint64_t>(filesystem.f_type) : 0;
}

/// Returns false if it is not an export descriptor, or has more than `size` bytes of memory. Its
/// paths must end within their arrays.
bool read_descriptor(int fd, std::uint64_t size, ExportDescriptor& descriptor) {
  const ssize_t got = ::pread(fd, &descriptor, sizeof descriptor, 0);
  return got == static_cast<ssize_t>(sizeof descriptor) &&
         descriptor.magic == ExportDescriptor::kMagic && descriptor.length_bytes <= size &&
         std::memchr(descriptor.backing_path, 0, sizeof descriptor.backing_path) != nullptr &&
         std::memchr(descriptor.posted_path, 0, sizeof descriptor.posted_path) != nullptr;
}

/// Reads the table of an export and checks it against the file. Returns an empty table if it is
/// invalid.
std::vector<ExportSegment> read_segments(int fd, const ExportDescriptor& descriptor,
                                         std::uint64_t file_size) {
  constexpr std::uint64_t kPage = ExportSegment::kPageBytes;
  if (descriptor.segment_count > descriptor.length_bytes / kPage) return {};
  std::vector<ExportSegment> segments(descriptor.segment_count);
  const std::size_t bytes = segments.size() * sizeof(ExportSegment);
  if (::pread(fd, segments.data(), bytes, sizeof descriptor) != static_cast<ssize_t>(bytes))
    return {};
  std::uint64_t left = descriptor.length_bytes;
  for (const auto& [offset, length] : segments) {
    const bool whole_pages = offset % kPage == 0 && length % kPage == 0 && length != 0;
    if (!whole_pages || length > left || offset > file_size || length > file_size - offset)
      return {};
    left -= length;
  }
  if (left != 0) segments.clear();
  return segments;
}

int import_export_descriptor(int fd, bool writable, std::uint64_t size, Import& import) {
  int content = ::open(proc_path(fd).c_str(), O_RDONLY | O_CLOEXEC);
  if (content < 0) return is_shortage(errno) ? errno : EINVAL;
  ExportDescriptor descriptor;
  if (!read_descriptor(content, size, descriptor)) {
    ::close(content);
    return EINVAL;
  }
  const bool has_segments = descriptor.segment_count != 0;
  if (has_segments) {
    import.backing = Backing::of_segments(content, writable);
  } else {
    ::close(content);
    content = ::open(descriptor.backing_path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (content < 0) return errno == EACCES || is_shortage(errno) ? errno : EINVAL;
    import.backing = Backing::of_fd(content, writable);
  }
  if (!import.backing) return errno;
  import.posted_path = descriptor.posted_path;
  import.offset_bytes = has_segments ? 0 : descriptor.offset_bytes;
  import.length_bytes = descriptor.length_bytes;
  const std::uint64_t file_size = import.backing->size();
  import.reference = Reference::to(fd);
  if (!import.reference) return errno;
  const bool inside =
      import.offset_bytes <= file_size && import.length_bytes <= file_size - import.offset_bytes;
  return inside ? 0 : EINVAL;
}

}  // namespace

/// Returns the existing backing of the file, or calls `map(table, key, size)` to map it. `map`
/// returns a null base with errno if it fails.
template <typename Map>
std::shared_ptr<Backing> Backing::find_or_map(int fd, bool writable, Map map) {
  struct stat status {};

  if (::fstat(fd, &status) != 0 || status.st_size <= 0) {
    ::close(fd);
    return null_with(EINVAL);
  }
  Table& all = table();
  std::shared_ptr<Backing> known;  // outlives the lock, which its destructor takes
  const std::lock_guard guard(all.mutex);
  const Key key{status.st_dev, status.st_ino, writable};
  if (const auto found = all.backings.find(key); found != all.backings.end()) {
    // A file that has grown needs a longer mapping. The old one serves its users until they are
    // gone.
    known = found->second.lock();
    if (known && known->size() == static_cast<std::uint64_t>(status.st_size)) {
      ::close(fd);
      return known;
    }
    all.backings.erase(found);
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  Mapped mapped = map(all, key, size);
  if (mapped.base == nullptr) {
    const int error = errno;
    ::close(fd);
    return null_with(error);
  }
  std::shared_ptr<Backing> backing(new Backing(fd, std::move(mapped), size, writable));
  std::erase_if(all.backings, [](const auto& entry) { return entry.second.expired(); });
  all.backings[key] = backing;
  return backing;
}

std::shared_ptr<Backing> Backing::of_fd(int fd, bool writable) {
  return find_or_map(fd, writable, [&](Table& all, const Key& key, std::uint64_t size) {
    std::byte* base = all.retired.take(key, size);
    return Mapped{base != nullptr ? base : map_file(fd, size, writable), {}};
  });
}

std::shared_ptr<Backing> Backing::of_segments(int fd, bool writable) {
  return find_or_map(fd, writable, [&](Table&, const Key&, std::uint64_t size) {
    return map_segments(fd, size, writable);
  });
}

Backing::Mapped Backing::map_segments(int fd, std::uint64_t size, bool writable) {
  errno = EINVAL;
  ExportDescriptor descriptor;
  if (!read_descriptor(fd, size, descriptor)) return {};
  const OwnedFd file(::open(descriptor.backing_path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC));

  struct stat status {};

  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return {};
  errno = EINVAL;
  auto segments = read_segments(fd, descriptor, static_cast<std::uint64_t>(status.st_size));
  if (segments.empty()) return {};
  void* whole =
      ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED) return {};
  auto* at = static_cast<std::byte*>(whole);
  for (const auto& [offset, length] : segments) {
    const int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    if (::mmap(at, length, access, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file.get(),
               static_cast<off_t>(offset)) == MAP_FAILED) {
      const int error = errno;
      ::munmap(whole, size);
      errno = error;
      return {};
    }
    at += length;
  }
  ::madvise(whole, size, MADV_DONTDUMP);
  ::madvise(whole, size, MADV_DONTFORK);
  return {static_cast<std::byte*>(whole), std::move(segments)};
}

Backing::~Backing() {
  struct stat status {};

  const bool known = ::fstat(fd_, &status) == 0;
  ::close(fd_);
  if (!known || !segments_.empty()) {
    ::munmap(base_, size_);
    return;
  }
  Table& all = table();
  const std::lock_guard guard(all.mutex);
  all.retired.add({{status.st_dev, status.st_ino, writable_}, base_, size_}, status.st_nlink != 0);
}

std::shared_ptr<Reference> Reference::to(int fd) {
  struct stat status {};

  if (::fstat(fd, &status) != 0) return nullptr;
  Table& all = table();
  const std::lock_guard guard(all.mutex);
  auto& known = all.references[{status.st_dev, status.st_ino}];
  if (auto reference = known.lock()) return reference;
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, kFirstOwnFd);
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
  const std::uint64_t file_system = file_system_of(fd);
  // Only importers in the kernel can reach the memory of a real exporter, which may be a card's.
  if (file_system == DMA_BUF_MAGIC) return EOPNOTSUPP;
  const bool stands_for_one = file_system == TMPFS_MAGIC || file_system == HUGETLBFS_MAGIC;
  if (!stands_for_one || !S_ISREG(status.st_mode) || status.st_size <= 0) return EINVAL;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if ((flags & O_PATH) != 0) return import_export_descriptor(fd, writable, size, import);
  if (writable && (flags & O_ACCMODE) != O_RDWR) return EACCES;
  const int file = ::fcntl(fd, F_DUPFD_CLOEXEC, kFirstOwnFd);
  if (file < 0) return errno;
  import.backing = Backing::of_fd(file, writable);
  if (!import.backing) return errno;
  import.length_bytes = size;
  return 0;
}

}  // namespace hbmwire::emulation::nic
