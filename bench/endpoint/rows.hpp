// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "bench/common/contest.hpp"

namespace hbmwire::bench {

/// The rows of each kind, in the table's order.
std::vector<Row> raw_rows();
std::vector<Row> ucx_rows();
std::vector<Row> fabric_rows();
std::vector<Row> tag_rows();
std::vector<Row> threshold_rows();

}  // namespace hbmwire::bench
