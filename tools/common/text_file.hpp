// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "hbmwire/fd.hpp"

#include "tools/common/failure.hpp"

namespace hbmwire::tools {

/// All of a file, of `most_bytes` at most. A FIFO or a device is refused rather than waited for.
Outcome<std::string> read_text_file(const std::string& path, std::uint64_t most_bytes);

/// A file that is tried before the work whose result it will hold, so that a path or a disk that
/// will not do is known first. It appears, or replaces the old contents, in write() and whole.
/// Whatever can be written to will do, /dev/stdout too. Written in place are devices and pipes, and
/// files that a new one can't stand for: of several names, of another owner, in a folder that takes
/// no new files.
class TextFile {
 public:
  static Outcome<TextFile> open(const std::string& path);

  TextFile(TextFile&&) noexcept = default;
  TextFile& operator=(TextFile&&) = delete;
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  ~TextFile() = default;

  /// The whole contents, once. SIGINT, SIGTERM, SIGHUP and SIGQUIT wait meanwhile.
  Outcome<void> write(const std::string& text);

 private:
  /// Where a file that replaces it is made.
  struct Place {
    std::string folder;
    std::string name;
    std::optional<mode_t> mode;  ///< of the one that it replaces
  };

  explicit TextFile(std::string path) noexcept : path_(std::move(path)) {}

  static std::optional<Place> place_of(const std::string& path);
  static Outcome<void> try_place(const Place& place);
  Outcome<void> reserve();
  Outcome<void> replace(const std::string& text);
  Outcome<void> write_in_place(const std::string& text);

  std::string path_;
  std::optional<Place> place_;
  Fd fd_;  // without a place
  bool regular_ = false;
};

}  // namespace hbmwire::tools
