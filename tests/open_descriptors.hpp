// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace hbmwire::test {

/// Descriptors that this process has open, without those of files with `but_for` in their names.
///
/// Nor those of /proc/<thread>/stat: the emulated hardware reads what the kernel says of a thread,
/// in threads of its own and at any time, and has such a file open for microseconds.
inline int open_descriptors(std::string_view but_for = {}) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone);
    const bool looks = target.starts_with("/proc/") && target.ends_with("/stat");
    const bool is_left_out = !but_for.empty() && target.find(but_for) != std::string::npos;
    if (!gone && !looks && !is_left_out) ++count;
  }
  return count;
}

}  // namespace hbmwire::test
