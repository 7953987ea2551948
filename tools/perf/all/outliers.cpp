// SPDX-License-Identifier: MIT
#include "tools/perf/all/outliers.hpp"

#include <algorithm>
#include <optional>

#include "tools/perf/all/reasons.hpp"
#include "tools/perf/all/statistics.hpp"

namespace hbmwire::tools::perf::all {
namespace {

/// A row or a column.
struct EndSide {
  std::vector<std::size_t> cells = {};  ///< measured ones, by their places in `pairs`
  bool blamed = false;
  double median = 0;  ///< when it was blamed
};

/// Finds the rows and columns that explain slow cells.
class Blame {
 public:
  Blame(const MatrixRun& run, double typical)
      : run_(run), typical_(typical), sides_(run.ends.size() * 2), explained_(run.pairs.size()) {
    for (std::size_t i = 0; i < run.pairs.size(); ++i) {
      const Cell& cell = run.pairs[i];
      if (cell.state != CellState::measured) continue;
      source_side(cell.source).cells.push_back(i);
      target_side(cell.target).cells.push_back(i);
    }
    while (blame_slowest()) {
    }
  }

  [[nodiscard]] std::vector<SlowEnd> slow_ends() {
    std::vector<SlowEnd> slow;
    for (std::size_t end = 0; end < run_.ends.size(); ++end) {
      const EndSide& source = source_side(end);
      const EndSide& target = target_side(end);
      if (!source.blamed && !target.blamed) continue;
      std::vector<double> rates;
      if (source.blamed) add_rates(source, rates);
      if (target.blamed) add_rates(target, rates);
      slow.push_back({.end = end,
                      .as_source = source.blamed,
                      .as_target = target.blamed,
                      .cells = rates.size(),
                      .ratio = median_of(rates) / typical_});
    }
    std::ranges::stable_sort(slow, {}, &SlowEnd::ratio);
    return slow;
  }

  [[nodiscard]] std::vector<SlowPair> slow_pairs() {
    std::vector<SlowPair> slow;
    for (const Cell& cell : run_.pairs) {
      if (cell.state != CellState::measured) continue;
      double expected = typical_;
      if (const EndSide& side = source_side(cell.source); side.blamed)
        expected = std::min(expected, side.median);
      if (const EndSide& side = target_side(cell.target); side.blamed)
        expected = std::min(expected, side.median);
      if (cell.bytes_per_second < kSlowShare * expected)
        slow.push_back({.cell = cell, .ratio = cell.bytes_per_second / typical_});
    }
    std::ranges::stable_sort(slow, {}, &SlowPair::ratio);
    return slow;
  }

 private:
  EndSide& source_side(std::size_t end) { return sides_[end * 2]; }

  EndSide& target_side(std::size_t end) { return sides_[end * 2 + 1]; }

  void add_rates(const EndSide& side, std::vector<double>& rates) const {
    for (const std::size_t i : side.cells) rates.push_back(run_.pairs[i].bytes_per_second);
  }

  /// The median of the cells that no blamed side explains. None for a blamed side, or with fewer
  /// than two such cells: one cell is a SlowPair.
  [[nodiscard]] std::optional<double> open_median(const EndSide& side) const {
    std::vector<double> rates;
    for (const std::size_t i : side.cells) {
      if (!explained_[i]) rates.push_back(run_.pairs[i].bytes_per_second);
    }
    if (side.blamed || rates.size() < 2) return std::nullopt;
    return median_of(std::move(rates));
  }

  /// Returns false if no side that is left has a slow median.
  bool blame_slowest() {
    EndSide* slowest = nullptr;
    double lowest = kSlowShare * typical_;
    for (EndSide& side : sides_) {
      const auto median = open_median(side);
      if (!median || *median >= lowest) continue;
      lowest = *median;
      slowest = &side;
    }
    if (slowest == nullptr) return false;
    slowest->blamed = true;
    slowest->median = lowest;
    for (const std::size_t i : slowest->cells) explained_[i] = true;
    return true;
  }

  const MatrixRun& run_;
  double typical_;
  std::vector<EndSide> sides_;
  std::vector<bool> explained_;
};

}  // namespace

Outliers outliers_of(const MatrixRun& run) {
  Outliers outliers{.typical_bytes_per_second = typical_rate(run)};
  if (outliers.typical_bytes_per_second <= 0) return outliers;
  Blame blame(run, outliers.typical_bytes_per_second);
  outliers.ends = blame.slow_ends();
  outliers.pairs = blame.slow_pairs();
  if (outliers.ends.empty() && outliers.pairs.empty()) return outliers;
  const Reasons reasons(run);
  for (SlowEnd& slow : outliers.ends) slow.reason = reasons.of_end(slow.end);
  for (SlowPair& slow : outliers.pairs) slow.reason = reasons.of_pair(slow.cell);
  return outliers;
}

}  // namespace hbmwire::tools::perf::all
