// SPDX-License-Identifier: MIT
#include "emulation/tool/sysfs_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "emulation/tool/file_lock.hpp"

namespace hbmwire::emulation::tool {

void SysfsWriter::directory(const std::filesystem::path& path) {
  if (!status_) return;
  std::error_code failure;
  std::filesystem::create_directories(root_ / path, failure);
  if (failure) status_ = cannot("create " + (root_ / path).string(), failure.value());
}

void SysfsWriter::file(const std::filesystem::path& path, std::string_view content) {
  bytes(path, std::string(content) + '\n');
}

void SysfsWriter::bytes(const std::filesystem::path& path, std::string_view content) {
  directory(path.parent_path());
  if (!status_) return;
  const auto full = root_ / path;
  const Fd fd{::open(full.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (!fd) {
    status_ = cannot("create " + full.string());
    return;
  }
  const auto written = ::write(fd.get(), content.data(), content.size());
  if (written < 0) {
    status_ = cannot("write " + full.string());
  } else if (static_cast<std::size_t>(written) != content.size()) {
    status_ = cannot("write " + full.string(), ENOSPC);
  }
}

void SysfsWriter::link(const std::filesystem::path& path, const std::filesystem::path& target) {
  link_outside(path, target.lexically_relative(path.parent_path()));
}

void SysfsWriter::link_outside(const std::filesystem::path& path,
                               const std::filesystem::path& target) {
  directory(path.parent_path());
  if (!status_) return;
  std::error_code failure;
  std::filesystem::create_symlink(target, root_ / path, failure);
  if (failure) status_ = cannot("create " + (root_ / path).string(), failure.value());
}

}  // namespace hbmwire::emulation::tool
