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

/// An end that is slow with most of the others: the median of its cells is slow. A cell that no
/// other cell of its end's confirms is a pair's.
struct SlowEnd {
  std::size_t end = 0;
  bool as_source = false;
  bool as_target = false;
  std::size_t cells = 0;  ///< measured, of those directions
  double ratio = 0;       ///< their median against the typical rate
  std::string reason = {};
};

/// A slow cell between ends of which neither explains it.
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

/// Takes the slowest row or column (of two cells or more) as explained by its end, leaves its cells
/// out, and goes on until no row or column has a slow median. A cell that stays slow, also against
/// the rates of the slow ends that it has, is a pair's.
[[nodiscard]] Outliers outliers_of(const MatrixRun& run);

/// "10 Gb/s": links are known by their bits.
[[nodiscard]] std::string link_text(double bytes_per_second);

}  // namespace hbmwire::tools::perf::all
