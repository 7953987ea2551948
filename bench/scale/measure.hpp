// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "bench/scale/side.hpp"

namespace hbmwire::bench {

/// The result of one run with some connections between two processes, as one of them sees it.
struct Figures {
  double connect_first_ms = 0;  ///< median of the first kSome
  double connect_last_ms = 0;   ///< of the last
  double put_ns = 0;            ///< 8 bytes, round robin over all
  double progress_ns = 0;       ///< where nothing is to do
  double close_ms = 0;          ///< median
  double here_kib = 0;          ///< resident memory, of each connection but the first
  double there_kib = 0;         ///< the same in the other process

  static constexpr std::size_t kSome = 100;
};

/// Both processes are made anew. Fails by an exception.
Figures measure(const Library& library, std::size_t connections, bool quick);

/// The median of each figure.
Figures median_of(const std::vector<Figures>& runs);

/// A connection takes a descriptor at least: raises this process' own limit as far as it may.
void allow_descriptors();

}  // namespace hbmwire::bench
