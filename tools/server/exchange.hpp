// SPDX-License-Identifier: MIT
#pragma once

#include "tools/common/job.hpp"

namespace hbmwire::tools {

/// The server's half of an exchange that `hello` requested: iterations of receive, double and
/// respond, then an RDMA write, then an RDMA read by the client. Wrong bytes do not end it, and are
/// in the report.
Outcome<void> serve_exchange(Job& job, const wire::Hello& hello);

}  // namespace hbmwire::tools
