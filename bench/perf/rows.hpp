// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "bench/common/contest.hpp"

namespace hbmwire::bench {

/// `hbmwire perf` through the endpoint API next to `ucx_perftest`, on the same two CPUs. Both go by
/// shared memory, or copy private memory of the other process; in one row our memory is a card's,
/// and goes by the NIC.
std::vector<Row> shared_memory_rows();

/// `hbmwire perf` against Debian's perftest on the same emulated NIC. Limits: rate and bandwidth at
/// least 0.98 of perftest's, latency at most 1.02.
std::vector<Row> perftest_rows();

}  // namespace hbmwire::bench
