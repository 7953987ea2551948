// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "hbmwire/deadline.hpp"
#include "hbmwire/fd.hpp"

#include "tools/common/output.hpp"

namespace hbmwire::tools::doctor {

/// A value from the other side, or why none came.
struct Heard {
  enum class Kind { value, ended, silent, interrupted };

  Kind kind = Kind::ended;
  Json value = {};
};

/// One end of a stream socket between two processes of this machine: one JSON value a line, both
/// ways. Owns its descriptor.
class JsonLines {
 public:
  explicit JsonLines(Fd fd) noexcept : fd_(std::move(fd)) {}

  /// A value for the other side; lost where that has gone, which listening tells.
  void say(const Json& value);

  /// The same without waiting. False: the other side does not read, and nothing more can be said.
  bool try_say(const Json& value);

  /// The next value; silent at the deadline, interrupted when `cancel_fd` becomes readable.
  Heard listen(const Deadline& until, int cancel_fd);

  /// The next value that is here, or the end, without waiting; nothing otherwise.
  std::optional<Heard> look();

  /// Readable when look() has something, poll(2); look() must have had nothing before.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  /// The other side gets no more.
  void close() noexcept { fd_ = Fd(); }

  /// Whether the other side was heard to end.
  [[nodiscard]] bool ended() const noexcept { return ended_; }

 private:
  std::optional<Heard> whole_line();
  bool read_more();

  Fd fd_;
  std::string text_;        // heard, and not a whole line yet
  std::size_t looked_ = 0;  // so much of it has no line end
  bool ended_ = false;
};

}  // namespace hbmwire::tools::doctor
