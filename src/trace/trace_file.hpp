// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

namespace hbmwire::detail {

/// The file of a trace: of bounded size, and whole again where the disk becomes full. Text is
/// gathered and written by write().
class TraceFile {
 public:
  /// Makes the file that `pattern` names ("%p": the process id), or another one beside it where it
  /// is there already. Errors: Stage::configure.
  static Result<TraceFile> create(const std::string& pattern, std::uint64_t most_bytes);

  TraceFile(TraceFile&&) noexcept = default;
  TraceFile& operator=(TraceFile&&) = delete;
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// Removes the file, unless it is to stay.
  ~TraceFile();

  /// The trace has begun: the file stays.
  void keep() noexcept { kept_ = true; }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// A line for the log; empty: the file is the one that was named.
  [[nodiscard]] const std::string& note() const noexcept { return note_; }

  /// Where add() puts its text.
  [[nodiscard]] std::string& text() noexcept { return text_; }

  /// Takes what was put behind the first `before` bytes of text() as a transfer more. False: the
  /// file would be too long with it, so that it is dropped, and so is all that follows.
  bool accept(std::size_t before) noexcept;

  /// Whether write() should be called before more is added.
  [[nodiscard]] bool is_due() const noexcept { return text_.size() >= kGathered; }

  /// Writes what was gathered. False: that failed, and error() says why. The file then has no more
  /// of it, and what was written before was shortened so that there is room for finish().
  bool write();

  /// Writes the last words, for which there is always room but on a full disk.
  void finish(const std::string& end);

  /// Transfers that are in the file, or gathered.
  [[nodiscard]] std::uint64_t transfers() const noexcept { return transfers_; }

  /// Why write() failed; none: it has not.
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

 private:
  TraceFile(std::string path, std::uint64_t most_bytes);

  [[nodiscard]] int write_all(const std::string& text) noexcept;

  // For the last words.
  static constexpr std::uint64_t kEndBytes = 4096;
  static constexpr std::size_t kGathered = std::size_t{1} << 18U;

  Fd fd_;
  std::string path_;
  std::string note_;
  std::uint64_t most_bytes_;
  std::string text_;
  std::uint64_t written_bytes_ = 0;
  std::uint64_t transfers_ = 0;
  std::uint64_t gathered_transfers_ = 0;  // of text_
  std::uint64_t before_last_bytes_ = 0;   // written before the last write()
  std::uint64_t last_transfers_ = 0;      // of the last write()
  bool full_ = false;
  bool kept_ = false;
  std::optional<Error> error_;
};

}  // namespace hbmwire::detail
