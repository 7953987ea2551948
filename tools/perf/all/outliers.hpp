// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/perf/all/matrix.hpp"

/// Slow cells of `pairs`, and their cause: an end or a single pair.
namespace hbmwire::tools::perf::all {

/// A rate below this share of the expected one is slow. Cells of equal hardware differ by some per
/// cent up to ten when they are measured for a fraction of a second, so twice that is no noise.
inline constexpr double kSlowShare = 0.8;

/// An end that is slow with most of the others: the median of its cells is slow. If no other cell
/// of an end confirms a slow cell, that is a SlowPair.
struct SlowEnd {
  std::size_t end = 0;
  bool as_source = false;
  bool as_target = false;
  std::size_t cells = 0;  ///< measured, of those directions
  double ratio = 0;       ///< their median against the typical rate
  std::string reason = {};
};

/// A slow cell that neither of its ends explains.
struct SlowPair {
  Cell cell = {};
  double ratio = 0;  ///< against the typical rate
  std::string reason = {};
};

struct Outliers {
  double typical_bytes_per_second = 0;  ///< typical_rate(); 0: no cell was measured
  std::vector<SlowEnd> ends = {};       ///< the slowest first
  std::vector<SlowPair> pairs = {};     ///< the slowest first
};

/// Blames the end of the slowest row or column (of two cells or more), leaves its cells out, and
/// goes on until no row or column has a slow median. A cell that is slow even against the medians
/// of its blamed ends is a SlowPair.
[[nodiscard]] Outliers outliers_of(const MatrixRun& run);

/// "10 Gb/s": links are known by their bits.
[[nodiscard]] std::string link_text(double bytes_per_second);

}  // namespace hbmwire::tools::perf::all
