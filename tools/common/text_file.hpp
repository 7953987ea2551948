// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "hbmwire/fd.hpp"

#include "tools/common/failure.hpp"

namespace hbmwire::tools {

/// Reads a whole file of at most `most_bytes`. Refuses FIFOs and devices instead of waiting for
/// them.
Outcome<std::string> read_text_file(const std::string& path, std::uint64_t most_bytes);

/// A file for the result of long work. It is tried before the work, so that a wrong path or a full
/// disk is found first. write() creates it, or replaces the old contents, in one step. Any writable
/// target is allowed, such as /dev/stdout. Some targets are written in place: devices, pipes, and
/// files that a new file cannot replace, because they have several names, another owner, or a
/// folder without write permission.
class TextFile {
 public:
  static Outcome<TextFile> open(const std::string& path);

  /// Opens a file that a user may have named into `file`, which stays empty for an empty path.
  static Outcome<void> open(const std::string& path, std::optional<TextFile>& file);

  TextFile(TextFile&&) noexcept = default;
  TextFile& operator=(TextFile&&) = delete;
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  ~TextFile() = default;

  /// Writes the whole contents, once. SIGINT, SIGTERM, SIGHUP and SIGQUIT are held meanwhile.
  Outcome<void> write(const std::string& text);

 private:
  /// The place where a replacement for the file is created.
  struct Place {
    std::string folder;
    std::string name;
    std::optional<mode_t> mode;  ///< permissions of the file that it replaces
  };

  explicit TextFile(std::string path) noexcept : path_(std::move(path)) {}

  static std::optional<Place> place_of(const std::string& path);
  static Outcome<void> try_place(const Place& place);
  Outcome<void> reserve();
  Outcome<void> replace(const std::string& text);
  Outcome<void> write_in_place(const std::string& text);

  std::string path_;
  std::optional<Place> place_;
  Fd fd_;  // used if there is no place
  bool regular_ = false;
};

}  // namespace hbmwire::tools
