// SPDX-License-Identifier: MIT
#pragma once

#include "tools/common/job.hpp"

namespace hbmwire::tools {

/// The client's half of an exchange that `hello` announced; serve_exchange() (server/exchange.hpp)
/// lists its parts.
Outcome<void> run_exchange(Job& job, const wire::Hello& hello);

}  // namespace hbmwire::tools
