// SPDX-License-Identifier: MIT
#pragma once

#include "tools/client/source_file.hpp"
#include "tools/common/job.hpp"

namespace hbmwire::tools {

/// Sends `source` through this side's buffer into the server's buffer, piece by piece. Two slots
/// alternate, so that one piece is loaded while the other is in flight. The server saves the
/// pieces. At the end both sides compare digests.
Outcome<void> send_file(Job& job, SourceFile& source);

}  // namespace hbmwire::tools
