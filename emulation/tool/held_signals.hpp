// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <csignal>

namespace hbmwire::emulation::tool {

/// Blocks signals in this process from now on: if a signal ended it while it makes folders, they
/// would remain. Child::wait() passes them on to COMMAND.
class HeldSignals {
 public:
  HeldSignals();

  /// Restores the signals, in a child that becomes COMMAND.
  void release() const;

  /// All blocked signals: those that end a process by default, SIGCHLD, and SIGXFSZ. Without the
  /// last, writing beyond a file's size limit is an error (EFBIG).
  [[nodiscard]] static sigset_t all();

  /// Sends the signals that have come to a child, and counts them as passed on.
  static void pass_on(pid_t child);

 private:
  sigset_t before_;
};

/// The number of a blocked signal that has come and would end this process; 0: none has.
[[nodiscard]] int held_end() noexcept;

}  // namespace hbmwire::emulation::tool
