// SPDX-License-Identifier: MIT
#pragma once

#include "tools/client/source_file.hpp"
#include "tools/common/job.hpp"

namespace hbmwire::tools {

/// Takes `source` through this side's buffer into the server's, piece by piece in two slots that
/// take turns, so that one piece is loaded while the other is under way; the server saves it. Then
/// both compare digests.
Outcome<void> send_file(Job& job, SourceFile& source);

}  // namespace hbmwire::tools
