// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::tools::perf::all {

/// One rank of `hbmwire perf --all`. Arguments as of run_perf(); returns the exit code.
int run_all(int argc, char** argv);

}  // namespace hbmwire::tools::perf::all
