// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::tools {

/// `hbmwire doctor explain [HINT]`: prints what docs/troubleshooting.md says about a hint, or the
/// names of all hints. argv[0] is "hbmwire doctor explain". Returns the exit code.
int run_explain(int argc, char** argv);

}  // namespace hbmwire::tools
