// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "hbmwire/deadline.hpp"
#include "hbmwire/fd.hpp"

#include "tools/common/failure.hpp"
#include "tools/common/output.hpp"
#include "tools/doctor/pairs/json_lines.hpp"

namespace hbmwire::tools::doctor {

/// The way from a child to its parent, and back: {"done": true} is the last value.
class Voice {
 public:
  explicit Voice(Fd fd) noexcept : lines_(std::move(fd)) {}

  void say(const Json& value) { lines_.say(value); }

  /// "This is going on now", which renews the parent's patience.
  void step(const std::string& by, const char* what);

  /// The next value of the parent's (Child::tell()).
  Heard listen(const Deadline& until, int cancel_fd) { return lines_.listen(until, cancel_fd); }

 private:
  JsonLines lines_;
};

/// {"failure": ...}: what ends a child before it has begun.
[[nodiscard]] Json failure_json(const Failure& failure);

/// The failure of what Ctrl-C or SIGTERM ended.
[[nodiscard]] Failure interrupted_failure();

/// A process that does what may hang, crash, or leave a device open: drivers and vendors' libraries
/// work there alone. The kernel gives back whatever it held, however it ended. It dies with its
/// parent.
///
/// The process that forks must have opened no accelerator: CUDA does not work in a child of one
/// that has. Its sockets are closed in the child, which would keep them open when the parent has
/// ended.
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

  /// A value for the child's Voice::listen(), without waiting. False: the child does not read.
  bool tell(const Json& value) { return lines_.try_say(value); }

  /// The next value, or why there is none.
  Heard listen(const Deadline& until, int cancel_fd) { return lines_.listen(until, cancel_fd); }

  /// JsonLines::look() and fd(), for one that listens to others besides.
  std::optional<Heard> look() { return lines_.look(); }

  [[nodiscard]] int fd() const noexcept { return lines_.fd(); }

  /// Asks it to end, and does not wait for that: where several end, all are asked first.
  void ask_to_end() noexcept;

  /// Asks it to end, after a moment forces it to, and gives how it ended: empty, or "killed by
  /// signal 11 (Segmentation fault)".
  std::string end();

 private:
  Child(pid_t pid, Fd fd) noexcept : pid_(pid), lines_(std::move(fd)) {}

  pid_t pid_ = -1;
  JsonLines lines_;
  std::optional<Deadline> patience_;  // until it is forced to end
};

}  // namespace hbmwire::tools::doctor
