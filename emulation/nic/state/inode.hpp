// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>

namespace hbmwire::emulation::nic {

/// Tells one file from another; 0 when it is not there. `fd` may have been closed behind our back
/// and be another thread's by now, which is what is asked: hence not fstat(), which ThreadSanitizer
/// takes for the use of a descriptor that is ours.
inline std::uint64_t inode_of(int fd) {
  struct statx status {};

  return ::statx(fd, "", AT_EMPTY_PATH, STATX_INO, &status) == 0 ? status.stx_ino : 0;
}

inline std::uint64_t inode_of(const std::filesystem::path& path) {
  struct stat status {};

  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace hbmwire::emulation::nic
