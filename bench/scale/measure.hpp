// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "bench/scale/side.hpp"

namespace hbmwire::bench {

/// The result of one run with many connections between two processes, as seen by one of them.
struct Figures {
  double connect_first_ms = 0;  ///< median of the first kSome connections
  double connect_last_ms = 0;   ///< median of the last kSome
  double put_ns = 0;            ///< for 8 bytes, in turn over all connections
  double progress_ns = 0;       ///< of a progress() that finds nothing to do
  double close_ms = 0;          ///< median
  double here_kib = 0;          ///< resident memory for each connection except the first
  double there_kib = 0;         ///< the same in the other process

  static constexpr std::size_t kSome = 100;
};

/// Runs one measurement with two new processes. Fails with an exception.
Figures measure(const Library& library, std::size_t connections, bool quick);

/// The median of each figure.
Figures median_of(const std::vector<Figures>& runs);

/// Each connection takes at least one descriptor: raises this process's limit as far as allowed.
void allow_descriptors();

}  // namespace hbmwire::bench
