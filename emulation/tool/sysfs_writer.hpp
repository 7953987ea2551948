// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "emulation/tool/status.hpp"

namespace hbmwire::emulation::tool {

/// Writes files and links below a root and remembers the first failure, so that code that describes
/// a tree stays free of error handling.
class SysfsWriter {
 public:
  explicit SysfsWriter(std::filesystem::path root) : root_(std::move(root)) {}

  void directory(const std::filesystem::path& path);
  /// Writes an attribute, with the newline that sysfs attributes end with.
  void file(const std::filesystem::path& path, std::string_view content);
  void bytes(const std::filesystem::path& path, std::string_view content);
  /// Makes a relative link at `path` to `target`. Both are below the root, as in sysfs.
  void link(const std::filesystem::path& path, const std::filesystem::path& target);

  /// Makes a link at `path` to an absolute path outside the tree.
  void link_outside(const std::filesystem::path& path, const std::filesystem::path& target);

  [[nodiscard]] const Status& status() const { return status_; }

 private:
  std::filesystem::path root_;
  Status status_;
};

}  // namespace hbmwire::emulation::tool
