// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "bench/common/contest.hpp"

namespace hbmwire::bench {

/// `hbmwire perf` through the endpoint API next to `ucx_perftest` over shared memory, on the same
/// two CPUs. Without limits: two processes that share memory need no NIC.
std::vector<Row> shared_memory_rows();

/// `hbmwire perf` against Debian's perftest on the same emulated NIC. Limits: rate and bandwidth at
/// least 0.98 of perftest's, latency at most 1.02.
std::vector<Row> perftest_rows();

}  // namespace hbmwire::bench
