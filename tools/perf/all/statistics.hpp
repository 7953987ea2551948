// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tools/perf/all/matrix.hpp"

/// Figures of a matrix. Cells that were not measured are in none of them.
namespace hbmwire::tools::perf::all {

struct Spread {
  std::size_t count = 0;
  double min = 0;
  double median = 0;
  double max = 0;
};

/// The median of an even number of values is the larger one in the middle: where half of the cells
/// of a small cluster are slow, the fast half stays the measure. `values`: not empty.
[[nodiscard]] double median_of(std::vector<double> values);

/// None without values.
[[nodiscard]] std::optional<Spread> spread_of(const std::vector<double>& values);

/// The rates of the measured cells.
[[nodiscard]] std::vector<double> rates_of(const std::vector<Cell>& cells);

/// The median over the ends of each end's own median, of its cells of `pairs` as source and as
/// target; 0 without a measured cell. If one of three ranks is slow, it slows four of six cells, so
/// the median of all cells would be slow; the median of the ends is not.
[[nodiscard]] double typical_rate(const MatrixRun& run);

/// The cell's rate against the slower of its two links; none where one of them is not known or the
/// cell was not measured.
[[nodiscard]] std::optional<double> share_of_link(const MatrixRun& run, const Cell& cell);

/// All that arrives at one end in a phase.
struct TargetSum {
  std::size_t target = 0;
  double bytes_per_second = 0;
  std::size_t measured = 0;  ///< cells
  std::size_t failed = 0;    ///< cells without a figure: the sum says nothing then
};

/// One sum for each target, in the order in which the targets first occur.
[[nodiscard]] std::vector<TargetSum> target_sums(const std::vector<Cell>& cells);

/// The sums of the targets that all of their sources reached.
[[nodiscard]] std::vector<double> whole_sums(const std::vector<TargetSum>& sums);

/// The sum over all phases.
[[nodiscard]] std::uint64_t verified_bytes(const MatrixRun& run);

}  // namespace hbmwire::tools::perf::all
