// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "bench/common/contest.hpp"

namespace hbmwire::bench {

/// Rows between two processes of a node: staged, zero-copy, and one against the other.
std::vector<Row> device_rows();

/// Rows within a process.
std::vector<Row> copy_rows();

/// Rows of the tcp mover.
std::vector<Row> tcp_rows();

}  // namespace hbmwire::bench
