// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/common/job.hpp"

namespace hbmwire::tools {

/// The server's half of a file transfer. Saves the pieces that the client writes into the two slots
/// of the buffer. The file appears in `directory` under the name from `hello` if the digests agree.
Outcome<void> receive_file(Job& job, const wire::Hello& hello, const std::string& directory);

}  // namespace hbmwire::tools
