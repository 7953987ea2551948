// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <functional>

#include "emulation/tool/held_signals.hpp"
#include "emulation/tool/status.hpp"

namespace hbmwire::emulation::tool {

/// Exit codes beside COMMAND's own, as env(1), timeout(1) and the shells have them.
enum SetupExitCode : int {
  kExitUnwritten = 1,  ///< standard output took not all of the help
  kExitUsage = 2,      ///< the command line is wrong
  kExitSetup = 125,
  kExitNotExecutable = 126,
  kExitNotFound = 127,
  kExitSignalled = 128,
};

/// COMMAND, as a child in this process's own group: Ctrl-C and job control reach it from the
/// terminal directly.
class Child {
 public:
  /// Runs `prepare` in the child, then COMMAND; what fails there becomes the child's exit code.
  static Result<Child> start(char** command, const HeldSignals& held,
                             const std::function<Status()>& prepare);

  /// Waits for its end and passes on the signals that other processes send to this one meanwhile.
  /// Its exit code.
  int wait() const;

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  explicit Child(pid_t pid) : pid_(pid) {}

  pid_t pid_;
};

}  // namespace hbmwire::emulation::tool
