// SPDX-License-Identifier: MIT
#include "emulation/common/publish_export.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hbmwire::emulation {
namespace {

int write_all(int fd, const void* bytes, std::size_t size, std::size_t at) {
  const ssize_t written = ::pwrite(fd, bytes, size, static_cast<off_t>(at));
  return written == static_cast<ssize_t>(size) ? 0 : -EIO;
}

template <std::size_t kSize>
bool put(const std::string& path, char (&to)[kSize]) {
  if (path.size() >= kSize) return false;
  std::memcpy(to, path.c_str(), path.size());
  return true;
}

int write_content(int memfd, const ExportSource& source) {
  ExportDescriptor descriptor;
  if (!put(source.backing_path, descriptor.backing_path) ||
      !put(source.posted_path, descriptor.posted_path))
    return -ENAMETOOLONG;
  for (const auto& segment : source.segments) descriptor.length_bytes += segment.length_bytes;
  const bool single = source.segments.size() == 1;
  if (single) {
    descriptor.offset_bytes = source.segments.front().offset_bytes;
  } else {
    descriptor.segment_count = source.segments.size();
  }
  if (::ftruncate(memfd, static_cast<off_t>(descriptor.length_bytes)) != 0) return -errno;
  const int written = write_all(memfd, &descriptor, sizeof descriptor, 0);
  if (written != 0 || single) return written;
  return write_all(memfd, source.segments.data(), source.segments.size_bytes(), sizeof descriptor);
}

}  // namespace

int publish_export(const ExportSource& source, PublishedExport& made) {
  made.memfd.reset(::memfd_create(source.name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (made.memfd.get() < 0) return -errno;
  if (const int error = write_content(made.memfd.get(), source); error != 0) return error;
  if (::fcntl(made.memfd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return -errno;
  const std::string path = "/proc/self/fd/" + std::to_string(made.memfd.get());
  made.reference.reset(::open(path.c_str(), O_PATH | O_CLOEXEC));
  return made.reference.get() < 0 ? -errno : 0;
}

}  // namespace hbmwire::emulation
