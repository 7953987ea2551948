// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/perf/all/matrix.hpp"
#include "tools/perf/all/presentation.hpp"

namespace hbmwire::tools::perf::all {

/// The unit of a row, and of a column, of the grid.
enum class GridKind : std::uint8_t {
  ends,   ///< one end, with figures
  ranks,  ///< one rank, with figures
  digits  ///< one rank or several, a character for each cell
};

/// The matrix of `pairs` as text.
struct Grid {
  GridKind kind = GridKind::ends;
  std::size_t ranks_per_row = 1;  ///< for GridKind::digits
  bool has_failures = false;      ///< a mark stands in some cell: kMarks
  std::vector<std::string> lines = {};
};

/// The meaning of the marks in place of figures.
inline constexpr const char* kMarks =
    "x: unreachable, !: broken, #: corrupt, ?: not measured, -: the same rank";

/// The figures' unit: giga, or mega where the typical rate is below 0.1 giga.
struct RateUnit {
  double bytes_per_second = 1e9;  ///< of one unit
  std::string name = {};          ///< "GB/s"
};

[[nodiscard]] RateUnit unit_for(double typical_bytes_per_second, bool gigabits);

/// Up to 16 ends one by one, more of them by ranks; digits where the ranks do not fit the columns.
/// A cell of the grid that stands for several of the run shows the slowest one, or the worst
/// failure.
[[nodiscard]] Grid grid_of(const MatrixRun& run, const MatrixStyle& style, bool gigabits);

}  // namespace hbmwire::tools::perf::all
