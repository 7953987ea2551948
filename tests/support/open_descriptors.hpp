// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

namespace hbmwire::test {

/// The target of a descriptor's link; "" if the descriptor is closed.
inline std::string target_of(const std::filesystem::path& link) {
  std::error_code gone;
  return std::filesystem::read_symlink(link, gone);
}

/// Whether the descriptor stays open for longer than a short read of the file takes.
inline bool stays_open(const std::filesystem::path& link, const std::string& target) {
  for (int look = 0; look < 100; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (target_of(link) != target) return false;
  }
  return true;
}

/// The number of this process' open descriptors, without those of files with `but_for` in their
/// names.
///
/// A descriptor of /proc/<thread>/stat counts only if it stays open: threads of the emulated
/// hardware open these files for microseconds at any time.
inline int open_descriptors(std::string_view but_for = {}) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string target = target_of(entry.path());
    if (target.empty()) continue;
    if (!but_for.empty() && target.find(but_for) != std::string::npos) continue;
    const bool is_status = target.starts_with("/proc/") && target.ends_with("/stat");
    if (!is_status || stays_open(entry.path(), target)) ++count;
  }
  return count;
}

}  // namespace hbmwire::test
