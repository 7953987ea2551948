// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "hbmwire/fd.hpp"

#include "tools/common/failure.hpp"

namespace hbmwire::tools {

/// All of a file, of `most_bytes` at most. A FIFO or a device is refused rather than waited for.
Outcome<std::string> read_text_file(const std::string& path, std::uint64_t most_bytes);

/// A file that is made before the work whose result it will hold, so that a path or a disk that
/// will not do is known first. The old contents stay until write(); a file that this object
/// made is removed if nothing was written. Whatever can be written to will do, /dev/stdout too.
class TextFile {
 public:
  static Outcome<TextFile> open(const std::string& path);

  TextFile(TextFile&&) noexcept = default;
  TextFile& operator=(TextFile&&) = delete;
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  ~TextFile();

  /// The whole contents, once.
  Outcome<void> write(const std::string& text);

 private:
  TextFile(std::string path, Fd fd, bool made) noexcept
      : path_(std::move(path)), fd_(std::move(fd)), made_(made) {}

  Outcome<void> reserve();

  std::string path_;
  Fd fd_;
  bool made_;
  bool regular_ = false;
};

}  // namespace hbmwire::tools
