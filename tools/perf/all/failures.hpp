// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/perf/all/matrix.hpp"

namespace hbmwire::tools::perf::all {

/// Cells without a figure that one sentence describes.
struct FailureGroup {
  CellState state = CellState::not_measured;
  std::size_t cells = 0;
  std::string where = {};  ///< "all cells from and to rank 3 (n3)"; "rank 0 (...) to rank 1 (...)"
  std::string problem = {};  ///< of the first cell; may be empty
  std::size_t problems = 0;  ///< the number of different problems
};

/// If a rank has no measured cell while others have some, its cells are grouped by state alone,
/// whatever their problems are. The other cells are grouped by state and problem. The largest group
/// comes first.
[[nodiscard]] std::vector<FailureGroup> failures_of(const MatrixRun& run,
                                                    const std::vector<Cell>& cells);

}  // namespace hbmwire::tools::perf::all
