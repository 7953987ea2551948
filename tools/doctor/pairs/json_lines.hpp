// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "hbmwire/deadline.hpp"
#include "hbmwire/fd.hpp"

#include "tools/common/output.hpp"

namespace hbmwire::tools::doctor {

/// A value from the other side, or the reason why none came.
struct Heard {
  enum class Kind { value, ended, silent, interrupted };

  Kind kind = Kind::ended;
  Json value = {};
};

/// One end of a stream socket between two processes of this machine. Carries one JSON value per
/// line, both ways. Owns its descriptor.
class JsonLines {
 public:
  explicit JsonLines(Fd fd) noexcept : fd_(std::move(fd)) {}

  /// Sends a value. It is lost if the other side has closed, which listen() then reports.
  void say(const Json& value);

  /// Like say(), but never waits. Returns false if the other side does not read; this end can then
  /// send nothing more.
  bool try_say(const Json& value);

  /// The next value; "silent" at the deadline, "interrupted" when `cancel_fd` becomes readable.
  Heard listen(const Deadline& until, int cancel_fd);

  /// The next value that has arrived, or the end; empty if there is neither. Never waits.
  std::optional<Heard> look();

  /// Readable (poll(2)) when look() will return something. Valid only after look() has returned
  /// empty.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  /// Closes the connection: the other side gets no more values.
  void close() noexcept { fd_ = Fd(); }

  /// Whether the other side has closed the connection.
  [[nodiscard]] bool ended() const noexcept { return ended_; }

 private:
  std::optional<Heard> whole_line();
  bool read_more();

  Fd fd_;
  std::string text_;        // received, but not a whole line yet
  std::size_t looked_ = 0;  // bytes at the beginning of text_ that are known to have no line end
  bool ended_ = false;
};

}  // namespace hbmwire::tools::doctor
