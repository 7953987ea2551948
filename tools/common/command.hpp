// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::tools {

/// Exit codes of every subcommand (docs/exit-codes.md). `emulate` returns the exit code of its
/// command instead, or 125 to 127 for its own failures.
enum ExitCode : int {
  kExitOk = 0,           ///< all requested work was done and verified
  kExitFailed = 1,       ///< a transfer, a verification or the peer failed
  kExitUsage = 2,        ///< the command line is wrong
  kExitUnavailable = 3,  ///< a requested device, driver or library is missing
  kExitSlow = 4,         ///< `doctor`: everything works, but some of it slowly
  kExitSetup = 125,      ///< `emulate` could not set up its hardware
};

/// A subcommand's entry point. argv[0] is the name to show in help ("hbmwire server"), and
/// argv[1...] are its own arguments.
using Command = int (*)(int argc, char** argv);

int run_server(int argc, char** argv);
int run_client(int argc, char** argv);
int run_info(int argc, char** argv);
int run_perf(int argc, char** argv);
int run_doctor(int argc, char** argv);
int run_stat(int argc, char** argv);
int run_trace(int argc, char** argv);

}  // namespace hbmwire::tools
