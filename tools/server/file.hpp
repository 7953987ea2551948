// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/common/job.hpp"

namespace hbmwire::tools {

/// The server's half of a file's transfer: what the client writes into the two slots of the buffer
/// is saved in `directory` under the name that `hello` gave, when the digests agree.
Outcome<void> receive_file(Job& job, const wire::Hello& hello, const std::string& directory);

}  // namespace hbmwire::tools
