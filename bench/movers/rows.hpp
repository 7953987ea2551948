// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "bench/common/contest.hpp"

namespace hbmwire::bench {

/// Between two processes of a node: staged, zero-copy, and the one against the other.
std::vector<Row> device_rows();

/// Within a process.
std::vector<Row> copy_rows();

/// Of the tcp mover.
std::vector<Row> tcp_rows();

}  // namespace hbmwire::bench
