// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>

namespace hbmwire::emulation::nic {

/// The inode number of an open file; 0 if `fd` is closed. The caller asks because the application
/// may have closed `fd` and another thread may have reused the number. fstat() is avoided because
/// ThreadSanitizer would report it as a use of another thread's descriptor.
inline std::uint64_t inode_of(int fd) {
  struct statx status {};

  return ::statx(fd, "", AT_EMPTY_PATH, STATX_INO, &status) == 0 ? status.stx_ino : 0;
}

inline std::uint64_t inode_of(const std::filesystem::path& path) {
  struct stat status {};

  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace hbmwire::emulation::nic
