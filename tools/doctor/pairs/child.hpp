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

/// A child's connection to its parent, both ways. The last value is {"done": true}.
class Voice {
 public:
  explicit Voice(Fd fd) noexcept : lines_(std::move(fd)) {}

  /// Sends a value to the parent.
  void say(const Json& value) { lines_.say(value); }

  /// Reports the current step, which also extends the parent's patience.
  void step(const std::string& by, const char* what);

  /// The parent's next value (Child::tell()).
  Heard listen(const Deadline& until, int cancel_fd) { return lines_.listen(until, cancel_fd); }

 private:
  JsonLines lines_;
};

/// {"failure": ...}: the reason why a child ended before it began its work.
[[nodiscard]] Json failure_json(const Failure& failure);

/// The failure of a run that Ctrl-C or SIGTERM ended.
[[nodiscard]] Failure interrupted_failure();

/// A process for work that may hang, crash, or leave a device open: drivers and vendors' libraries
/// are used only there. However it ends, the kernel releases all that it held. It dies with its
/// parent.
///
/// The parent must have opened no accelerator, because CUDA does not work in a child of a process
/// that has. The child closes the parent's sockets, since it would keep them open after the parent
/// has ended.
class Child {
 public:
  /// `cancel_fd` becomes readable when the child must end (Wait::cancel_fd).
  using Body = std::function<void(Voice& voice, int cancel_fd)>;

  /// Errors: a process or a descriptor could not be created.
  static Outcome<Child> start(const Body& body);

  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) = delete;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Calls end() if that was not done.
  ~Child();

  /// Sends a value to the child's Voice::listen() without waiting. Returns false if the child does
  /// not read.
  bool tell(const Json& value) { return lines_.try_say(value); }

  /// The next value, or the reason why there is none.
  Heard listen(const Deadline& until, int cancel_fd) { return lines_.listen(until, cancel_fd); }

  /// JsonLines::look() and fd(), for a caller that waits for several processes.
  std::optional<Heard> look() { return lines_.look(); }

  [[nodiscard]] int fd() const noexcept { return lines_.fd(); }

  /// Asks the child to end, without waiting. To end several children, ask all of them first.
  void ask_to_end() noexcept;

  /// Asks the child to end, and kills it after a moment. Returns how it ended: "" for an exit, or
  /// "killed by signal 11 (Segmentation fault)".
  std::string end();

 private:
  Child(pid_t pid, Fd fd) noexcept : pid_(pid), lines_(std::move(fd)) {}

  pid_t pid_ = -1;
  JsonLines lines_;
  std::optional<Deadline> patience_;  // when it is killed
};

}  // namespace hbmwire::tools::doctor
