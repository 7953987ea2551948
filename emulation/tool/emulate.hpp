// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::emulation::tool {

/// Runs a command with emulated hardware according to the command line. Returns the exit code of
/// this process: the command's own, or one of emulation/docs/emulate.md. Single-threaded.
int run_emulate(int argc, char** argv);

}  // namespace hbmwire::emulation::tool
