// SPDX-License-Identifier: MIT
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>

namespace hbmwire::emulation::nic {

/// Tells one file from another; 0 when it is not there.
inline std::uint64_t inode_of(int fd) {
  struct stat status {};

  return ::fstat(fd, &status) == 0 ? status.st_ino : 0;
}

inline std::uint64_t inode_of(const std::filesystem::path& path) {
  struct stat status {};

  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace hbmwire::emulation::nic
