// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <csignal>

namespace hbmwire::emulation::tool {

/// Holds signals back from this process from now on: a signal that ended it while it makes folders
/// would leave them. Child::wait() passes them on to COMMAND.
class HeldSignals {
 public:
  HeldSignals();

  /// In a child that becomes COMMAND: as they were.
  void release() const;

  /// All that are held back: those that end a process by default, SIGCHLD, and SIGXFSZ, without
  /// which a file that may not become larger is an error (EFBIG).
  [[nodiscard]] static sigset_t all();

  /// Sends a child those that have come, and counts them as passed on.
  static void pass_on(pid_t child);

 private:
  sigset_t before_;
};

/// The number of a signal that has come, is held back, and would end this process; 0: none has.
[[nodiscard]] int held_end() noexcept;

}  // namespace hbmwire::emulation::tool
