// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "hbmwire/deadline.hpp"
#include "hbmwire/fd.hpp"

#include "tools/common/failure.hpp"
#include "tools/common/output.hpp"

namespace hbmwire::tools::doctor {

/// The way from a child to its parent: one JSON value a line, {"done": true} the last one.
class Voice {
 public:
  explicit Voice(int fd) noexcept : fd_(fd) {}

  void say(const Json& value);

  /// "This is going on now", which renews the parent's patience.
  void step(const std::string& by, const char* what);

 private:
  int fd_;
};

/// {"failure": ...}: what ends a child before it has begun.
[[nodiscard]] Json failure_json(const Failure& failure);

/// A process that does what may hang, crash, or leave a device open: drivers and vendors' libraries
/// work there alone. The kernel gives back whatever it held, however it ended. It dies with its
/// parent.
///
/// The process that forks must have opened nothing: CUDA does not work in a child of one that has.
class Child {
 public:
  /// `cancel_fd` becomes readable when the child shall end (Wait::cancel_fd).
  using Body = std::function<void(Voice& voice, int cancel_fd)>;

  /// Errors: no process, or no descriptor.
  static Outcome<Child> start(const Body& body);

  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) = delete;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// end(), if that was not called.
  ~Child();

  struct Heard {
    enum class Kind { value, ended, silent, interrupted };

    Kind kind = Kind::ended;
    Json value = {};
  };

  /// The next value, or why there is none.
  Heard listen(const Deadline& until, int cancel_fd);

  /// Asks it to end, after a moment forces it to, and gives how it ended: empty, or "killed by
  /// signal 11 (Segmentation fault)".
  std::string end();

 private:
  Child(pid_t pid, Fd fd) noexcept : pid_(pid), fd_(std::move(fd)) {}

  pid_t pid_ = -1;
  Fd fd_;
  std::string text_;    // heard, and not a whole line yet
  bool ended_ = false;  // it says no more
};

}  // namespace hbmwire::tools::doctor
