// SPDX-License-Identifier: MIT
#include "emulation/common/open_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

namespace hbmwire::emulation {
namespace {

namespace fs = std::filesystem;

bool is_number(const std::string& name) {
  return std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

bool has_open(const fs::path& descriptors, std::uint64_t device, std::uint64_t inode) {
  std::error_code failure;
  for (fs::directory_iterator it(descriptors, failure), end; !failure && it != end;
       it.increment(failure)) {
    struct stat status {};

    // Follows the link to the open file itself, even if the file has no name any more.
    if (::stat(it->path().c_str(), &status) == 0 && status.st_ino == inode &&
        status.st_dev == device)
      return true;
  }
  return false;
}

}  // namespace

bool is_open_in_a_process(std::uint64_t device, std::uint64_t inode) {
  std::error_code failure;
  for (fs::directory_iterator it("/proc", failure), end; !failure && it != end;
       it.increment(failure)) {
    if (is_number(it->path().filename().string()) && has_open(it->path() / "fd", device, inode))
      return true;
  }
  return false;
}

}  // namespace hbmwire::emulation
