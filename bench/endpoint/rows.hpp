// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include "bench/common/contest.hpp"

namespace hbmwire::bench {

inline constexpr std::size_t k64k = 64 << 10;
inline constexpr std::size_t k1m = 1 << 20;
/// Limits for our latency and bandwidth, relative to theirs.
inline constexpr double kLatencyBound = 1.05;
inline constexpr double kBandwidthBound = 0.95;
/// UCX's name for RC by verbs.
inline constexpr const char* kTransport = "rc_v";

/// The rows of each kind, in the order of the table.
std::vector<Row> raw_rows();
std::vector<Row> list_rows();
std::vector<Row> ucx_rows();
std::vector<Row> fabric_rows();
std::vector<Row> tag_rows();
std::vector<Row> threshold_rows();

}  // namespace hbmwire::bench
