// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/common/interrupt.hpp"
#include "tools/perf/options.hpp"

namespace hbmwire::tools::perf {

/// `hbmwire perf TEST --ranks A,B`: rank A of the group is the client, rank B the server; the
/// others wait. Rank A alone prints. `options`: as parsed from these arguments, without HOST.
/// Returns the exit code.
int run_between_ranks(const Options& options, int argc, char** argv, const Interrupt& interrupt);

}  // namespace hbmwire::tools::perf
