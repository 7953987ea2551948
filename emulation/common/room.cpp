// SPDX-License-Identifier: MIT
#include "emulation/common/room.hpp"

#include <sys/mman.h>
#include <sys/statvfs.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

namespace hbmwire::emulation {
namespace {

constexpr std::uint64_t kPinnedPage = 4096;

// If this much is free, no pages are allocated even for a larger range. A card's memory is larger
// than the machine's, and programs allocate all of it but touch little. So this is also the most
// that is ever allocated.
constexpr std::uint64_t kPlenty = 1ULL << 30U;

/// A file system without a limit reports 0 blocks.
bool has_plenty(const struct statvfs& info) {
  const std::uint64_t free = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  return info.f_blocks == 0 || free >= kPlenty;
}

void tell(const char* file, const struct statvfs& info, std::uint64_t bytes) {
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  std::fprintf(stderr,
               "emulated hardware: the file system of %s has no room for %llu KiB (%llu of its "
               "%llu MiB are free): start the container with --shm-size=8g, or choose another "
               "place by `hbmwire emulate --dir`\n",
               file, static_cast<unsigned long long>((bytes + 1023) >> 10U),
               static_cast<unsigned long long>(info.f_bavail) * info.f_frsize >> 20U,
               static_cast<unsigned long long>(info.f_blocks) * info.f_frsize >> 20U);
}

}  // namespace

int populate(const void* address, std::size_t length, bool writable) noexcept {
  const auto first = reinterpret_cast<std::uint64_t>(address) & ~(kPinnedPage - 1);
  const std::uint64_t end = reinterpret_cast<std::uint64_t>(address) + length;
  if (end < first || end > ~kPinnedPage) return EFAULT;  // the range or its last page wraps around
  const std::uint64_t bytes = (end - first + kPinnedPage - 1) & ~(kPinnedPage - 1);
  const int advice = writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  while (::madvise(reinterpret_cast<void*>(first), bytes, advice) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    return errno == ENOMEM || errno == EINVAL ? EFAULT : errno;
  }
  return 0;
}

int reserve(const char* file, const void* address, std::size_t length, bool writable) noexcept {
  struct statvfs info {};

  if (length == 0 || ::statvfs(file, &info) != 0 || has_plenty(info)) return 0;
  if (populate(address, length, writable) == 0) return 0;
  tell(file, info, length);
  return ENOSPC;
}

}  // namespace hbmwire::emulation
