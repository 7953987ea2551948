// SPDX-License-Identifier: MIT
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <span>
#include <string>

#include "hbmwire/fd.hpp"

#include "tools/common/failure.hpp"

namespace hbmwire::tools {

/// A regular file that is read once, from its first byte to its last. It must not change meanwhile.
class SourceFile {
 public:
  /// Errors: it can't be opened, is no regular file, or has a name that can't be sent.
  static Outcome<SourceFile> open(const std::string& path);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }  ///< without folders

  [[nodiscard]] std::uint64_t size_bytes() const noexcept {
    return static_cast<std::uint64_t>(status_.st_size);
  }

  /// Fills all of `to` with the next bytes.
  Outcome<void> read(std::span<std::byte> to);

  /// To be called after the last byte. Fails if the file has changed since open().
  Outcome<void> check_unchanged() const;

 private:
  SourceFile(Fd fd, std::string path, std::string name, const struct stat& status)
      : fd_(std::move(fd)), path_(std::move(path)), name_(std::move(name)), status_(status) {}

  Fd fd_;
  std::string path_;
  std::string name_;
  struct stat status_;
};

}  // namespace hbmwire::tools
