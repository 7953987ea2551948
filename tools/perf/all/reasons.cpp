// SPDX-License-Identifier: MIT
#include "tools/perf/all/reasons.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/perf/all/outliers.hpp"
#include "tools/perf/all/statistics.hpp"

namespace hbmwire::tools::perf::all {
namespace {

using Counts = std::map<std::string, std::size_t>;

// The value that more than half of all have; empty where there is none, since "most others" would
// be wrong then.
std::string value_of_most(const Counts& counts) {
  std::size_t all = 0;
  for (const auto& [value, count] : counts) all += count;
  for (const auto& [value, count] : counts) {
    if (2 * count > all) return value;
  }
  return "";
}

std::map<std::string, std::string> usual(const MatrixRun& run, std::string End::*field) {
  std::map<std::string, Counts> counts;
  for (const End& end : run.ends) {
    if (!(end.*field).empty()) ++counts[end.memory][end.*field];
  }
  std::map<std::string, std::string> names;
  for (const auto& [memory, values] : counts) names[memory] = value_of_most(values);
  return names;
}

std::string usual_transfer(const MatrixRun& run) {
  Counts counts;
  for (const Cell& cell : run.pairs) {
    if (cell.state == CellState::measured && !cell.path.empty()) ++counts[cell.path];
  }
  return value_of_most(counts);
}

double median_link(const MatrixRun& run) {
  std::vector<double> links;
  for (const End& end : run.ends) {
    if (end.link_bytes_per_second > 0) links.push_back(end.link_bytes_per_second);
  }
  return links.empty() ? 0 : median_of(std::move(links));
}

bool differs(const std::map<std::string, std::string>& usual, const std::string& memory,
             const std::string& value) {
  const auto found = usual.find(memory);
  return found != usual.end() && !found->second.empty() && !value.empty() && value != found->second;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

std::string without_stop(std::string sentence) {
  while (sentence.ends_with('.') || sentence.ends_with(' ')) sentence.pop_back();
  return sentence;
}

}  // namespace

std::string link_text(double bytes_per_second) {
  return fmt::format("{:.4g} Gb/s", bytes_per_second * 8 / 1e9);
}

Reasons::Reasons(const MatrixRun& run)
    : run_(run),
      median_link_(median_link(run)),
      usual_path_(usual(run, &End::path)),
      usual_distance_(usual(run, &End::distance)),
      usual_transfer_(usual_transfer(run)) {}

std::vector<std::string> Reasons::differences(std::size_t index, const std::string& whose) const {
  const End& end = run_.ends[index];
  std::vector<std::string> parts;
  if (end.link_bytes_per_second > 0 && end.link_bytes_per_second < kSlowShare * median_link_) {
    parts.push_back(fmt::format("{} link is {}, the median's {}", whose,
                                link_text(end.link_bytes_per_second), link_text(median_link_)));
  }
  if (differs(usual_path_, end.memory, end.path)) {
    parts.push_back(fmt::format("{} path is {}, that of most others {}", whose, end.path,
                                usual_path_.at(end.memory)));
  }
  if (differs(usual_distance_, end.memory, end.distance)) {
    parts.push_back(fmt::format("{} NIC and device are {} apart, most others {}", whose,
                                end.distance, usual_distance_.at(end.memory)));
  }
  for (const std::string& fact : end.facts) parts.push_back(without_stop(fact));
  return parts;
}

std::string Reasons::of_end(std::size_t end) const {
  const auto parts = differences(end, "its");
  if (!parts.empty()) return joined(parts);
  return fmt::format("it differs from the others in no known fact; run `hbmwire doctor` on {}",
                     run_.ends[end].host);
}

std::string Reasons::of_pair(const Cell& cell) const {
  const End& source = run_.ends[cell.source];
  const End& target = run_.ends[cell.target];
  std::vector<std::string> parts;
  if (!cell.path.empty() && !usual_transfer_.empty() && cell.path != usual_transfer_) {
    parts.push_back(
        fmt::format("its transfers went by {}, most others by {}", cell.path, usual_transfer_));
  }
  for (auto& part : differences(cell.source, "the source's")) parts.push_back(std::move(part));
  for (auto& part : differences(cell.target, "the target's")) parts.push_back(std::move(part));
  if (!parts.empty()) return joined(parts);
  return fmt::format(
      "neither end explains it, so look at the network between them: run `hbmwire doctor --serve` "
      "on {}, and `hbmwire doctor {}` on {}",
      target.host, target.host, source.host);
}

}  // namespace hbmwire::tools::perf::all
