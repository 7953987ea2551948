// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

namespace hbmwire::detail {

/// The file of a trace. Its size is bounded, and it stays readable even if the disk becomes full.
/// Text is gathered, and written by write().
class TraceFile {
 public:
  /// Makes the file with the name `pattern` ("%p": the process id), or, if that exists already, a
  /// file with a similar name. Errors: Stage::configure.
  static Result<TraceFile> create(const std::string& pattern, std::uint64_t most_bytes);

  TraceFile(TraceFile&&) noexcept = default;
  TraceFile& operator=(TraceFile&&) = delete;
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// Removes the file unless keep() was called.
  ~TraceFile();

  /// The trace has begun: the file stays.
  void keep() noexcept { kept_ = true; }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// A line for the log; empty if the file has the requested name.
  [[nodiscard]] const std::string& note() const noexcept { return note_; }

  /// TraceEvents::add() appends its text here.
  [[nodiscard]] std::string& text() noexcept { return text_; }

  /// Counts the text after the first `before` bytes of text() as one transfer. Returns false if the
  /// file would become too long: that text is dropped then, and so is all later text.
  bool accept(std::size_t before) noexcept;

  /// Whether write() should be called before more is added.
  [[nodiscard]] bool is_due() const noexcept { return text_.size() >= kGathered; }

  /// Writes the gathered text. Returns false if that fails; error() says why. The gathered text is
  /// lost then, and the file is shortened to make room for finish().
  bool write();

  /// Writes the end of the file. There is always room for it, unless the disk is full.
  void finish(const std::string& end);

  /// The number of transfers in the file or in the gathered text.
  [[nodiscard]] std::uint64_t transfers() const noexcept { return transfers_; }

  /// The reason why write() failed; no value if it has not.
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

 private:
  TraceFile(std::string path, std::uint64_t most_bytes);

  [[nodiscard]] int write_all(const std::string& text) noexcept;

  // Bytes reserved for the end of the file.
  static constexpr std::uint64_t kEndBytes = 4096;
  static constexpr std::size_t kGathered = std::size_t{1} << 18U;

  Fd fd_;
  std::string path_;
  std::string note_;
  std::uint64_t most_bytes_;
  std::string text_;
  std::uint64_t written_bytes_ = 0;
  std::uint64_t transfers_ = 0;
  std::uint64_t gathered_transfers_ = 0;  // the transfers in text_
  std::uint64_t before_last_bytes_ = 0;   // written before the last write()
  std::uint64_t last_transfers_ = 0;      // those of the last write()
  bool full_ = false;
  bool kept_ = false;
  std::optional<Error> error_;
};

}  // namespace hbmwire::detail
