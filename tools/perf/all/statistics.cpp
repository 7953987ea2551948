// SPDX-License-Identifier: MIT
#include "tools/perf/all/statistics.hpp"

#include <algorithm>
#include <unordered_map>

#include "tools/perf/all/presentation.hpp"

namespace hbmwire::tools::perf::all {

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::optional<Spread> spread_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  const auto [min, max] = std::ranges::minmax(values);
  return Spread{.count = values.size(), .min = min, .median = median_of(values), .max = max};
}

std::vector<double> rates_of(const std::vector<Cell>& cells) {
  std::vector<double> rates;
  for (const Cell& cell : cells) {
    if (cell.state == CellState::measured) rates.push_back(cell.bytes_per_second);
  }
  return rates;
}

double typical_rate(const MatrixRun& run) {
  std::vector<std::vector<double>> rates_of_end(run.ends.size());
  for (const Cell& cell : run.pairs) {
    if (cell.state != CellState::measured) continue;
    rates_of_end[cell.source].push_back(cell.bytes_per_second);
    rates_of_end[cell.target].push_back(cell.bytes_per_second);
  }
  std::vector<double> medians;
  for (auto& rates : rates_of_end) {
    if (!rates.empty()) medians.push_back(median_of(std::move(rates)));
  }
  return medians.empty() ? 0 : median_of(std::move(medians));
}

std::optional<double> share_of_link(const MatrixRun& run, const Cell& cell) {
  const double link = std::min(run.ends[cell.source].link_bytes_per_second,
                               run.ends[cell.target].link_bytes_per_second);
  if (cell.state != CellState::measured || link <= 0) return std::nullopt;
  return cell.bytes_per_second / link;
}

std::vector<TargetSum> target_sums(const std::vector<Cell>& cells) {
  std::vector<TargetSum> sums;
  std::unordered_map<std::size_t, std::size_t> place_of_target;
  for (const Cell& cell : cells) {
    const auto [place, added] = place_of_target.try_emplace(cell.target, sums.size());
    if (added) sums.push_back({.target = cell.target});
    TargetSum& sum = sums[place->second];
    const bool measured = cell.state == CellState::measured;
    if (measured) sum.bytes_per_second += cell.bytes_per_second;
    ++(measured ? sum.measured : sum.failed);
  }
  return sums;
}

std::vector<double> whole_sums(const std::vector<TargetSum>& sums) {
  std::vector<double> rates;
  for (const TargetSum& sum : sums) {
    if (sum.failed == 0) rates.push_back(sum.bytes_per_second);
  }
  return rates;
}

std::uint64_t verified_bytes(const MatrixRun& run) {
  std::uint64_t bytes = 0;
  for (const Phase phase : kPhases) {
    for (const Cell& cell : cells_of(run, phase)) bytes += cell.verified_bytes;
  }
  return bytes;
}

}  // namespace hbmwire::tools::perf::all
