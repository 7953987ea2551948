// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "hbmwire/fd.hpp"

#include "tools/common/failure.hpp"

namespace hbmwire::tools {

/// A file that appears under its name only when it is complete. It is written under a temporary
/// name in the same directory. The destructor removes it unless keep() was called.
class SavedFile {
 public:
  /// `name` must be a base name. Reserves room for `bytes` if the file system can, so that a full
  /// disk is found before the transfer.
  static Outcome<SavedFile> create(const std::string& directory, const std::string& name,
                                   std::uint64_t bytes);

  /// Sets the permissions; the umask does not apply.
  Outcome<void> set_mode(mode_t mode) const;

  SavedFile(SavedFile&&) noexcept;
  SavedFile& operator=(SavedFile&&) = delete;
  SavedFile(const SavedFile&) = delete;
  SavedFile& operator=(const SavedFile&) = delete;
  ~SavedFile();

  Outcome<void> append(std::span<const std::byte> bytes);

  /// Waits until the contents are on the disk. May take long, and may be called in another thread.
  [[nodiscard]] Outcome<void> sync() const;

  /// Renames the file to its final name, replacing an existing one. To be called after sync().
  Outcome<void> keep();

 private:
  SavedFile(Fd directory, std::string directory_path, std::string name);

  [[nodiscard]] std::string path() const { return directory_path_ + "/" + name_; }

  Fd directory_;
  std::string directory_path_;
  std::string name_;
  std::string temporary_;
  Fd fd_;
};

}  // namespace hbmwire::tools
