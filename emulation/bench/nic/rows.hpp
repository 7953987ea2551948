// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "bench/common/contest.hpp"

namespace hbmwire::bench {

/// The rows of each kind, in the order of the table.
std::vector<Row> copy_rows();
std::vector<Row> latency_rows();
std::vector<Row> wake_rows();
std::vector<Row> registration_rows();
std::vector<Row> aggregate_rows();
std::vector<Row> many_rows();

}  // namespace hbmwire::bench
