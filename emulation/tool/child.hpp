// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <functional>

#include "emulation/tool/held_signals.hpp"
#include "emulation/tool/status.hpp"

namespace hbmwire::emulation::tool {

/// Exit codes other than COMMAND's own, as env(1), timeout(1) and the shells use them.
enum SetupExitCode : int {
  kExitUnwritten = 1,  ///< standard output did not take all of the help
  kExitUsage = 2,      ///< the command line is wrong
  kExitSetup = 125,
  kExitNotExecutable = 126,
  kExitNotFound = 127,
  kExitSignalled = 128,
};

/// COMMAND, as a child in this process's own group, so that Ctrl-C and job control of the terminal
/// reach it directly.
class Child {
 public:
  /// Runs `prepare` in the child, then COMMAND. If a step fails, the child's exit code tells.
  static Result<Child> start(char** command, const HeldSignals& held,
                             const std::function<Status()>& prepare);

  /// Waits for the child's end, and passes on the signals that other processes send to this process
  /// meanwhile. Returns its exit code.
  int wait() const;

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  explicit Child(pid_t pid) : pid_(pid) {}

  pid_t pid_;
};

}  // namespace hbmwire::emulation::tool
