// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "tools/common/text.hpp"
#include "tools/perf/all/names.hpp"
#include "tools/perf/all/outliers.hpp"
#include "tools/perf/all/presentation.hpp"

namespace hbmwire::tools::perf::all {
namespace {

/// An end in any run: host, NIC, memory, and how many such ends stand before it.
using EndKey = std::tuple<std::string, std::string, std::string, std::size_t>;
using CellKey = std::pair<std::size_t, std::size_t>;

std::vector<EndKey> keys_of(const MatrixRun& run) {
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> seen;
  std::vector<EndKey> keys;
  for (const End& end : run.ends) {
    const std::size_t before = seen[{end.host, end.nic, end.memory}]++;
    keys.emplace_back(end.host, end.nic, end.memory, before);
  }
  return keys;
}

std::string key_text(const EndKey& key) {
  const auto& [host, nic, memory, before] = key;
  const std::string name = fmt::format("{} {} {}", host, nic, memory);
  return before == 0 ? name : fmt::format("{} #{}", name, before + 1);
}

std::string number_text(double number) { return fmt::format("{:.4g}", number); }

std::string known_link_text(double bytes_per_second) {
  return bytes_per_second > 0 ? link_text(bytes_per_second) : "not known";
}

std::string yes_or_no(bool value) { return value ? "yes" : "no"; }

/// Finds how two runs differ.
class Comparing {
 public:
  Comparing(const MatrixRun& before, const MatrixRun& now)
      : before_(before), now_(now), keys_before_(keys_of(before)), keys_now_(keys_of(now)) {
    std::map<EndKey, std::size_t> places;
    for (std::size_t i = 0; i < keys_now_.size(); ++i) places[keys_now_[i]] = i;
    std::vector<bool> met(keys_now_.size());
    for (const EndKey& key : keys_before_) {
      const auto found = places.find(key);
      place_now_.push_back(found == places.end() ? std::nullopt : std::optional(found->second));
      if (found != places.end()) met[found->second] = true;
      if (found == places.end()) comparison_.only_before.push_back(key_text(key));
    }
    for (std::size_t i = 0; i < met.size(); ++i) {
      if (!met[i]) comparison_.only_now.push_back(key_text(keys_now_[i]));
    }
  }

  [[nodiscard]] bool has_common_end() const {
    return comparison_.only_before.size() < keys_before_.size();
  }

  MatrixComparison compare() {
    find_differences();
    find_end_differences();
    // Where the ends differ, so does the other traffic of a cell in the phases that measure many
    // cells at the same time: only the pairs can be compared.
    const bool same_ends = comparison_.only_before.empty() && comparison_.only_now.empty();
    for (const Phase phase : kPhases) {
      if (phase == Phase::pairs || same_ends) compare_phase(phase);
    }
    std::ranges::stable_sort(comparison_.worse, {}, &CellChange::relative);
    std::ranges::stable_sort(comparison_.better, std::ranges::greater{}, &CellChange::relative);
    return std::move(comparison_);
  }

 private:
  void add_difference(const std::string& what, const std::string& before, const std::string& now) {
    const auto shown = [](const std::string& text) { return text.empty() ? "none" : text; };
    if (before == now) return;
    comparison_.differences.push_back(
        fmt::format("{}: {}, before: {}", what, shown(now), shown(before)));
  }

  void find_differences() {
    add_difference("emulated hardware", yes_or_no(before_.emulated), yes_or_no(now_.emulated));
    add_difference("verified", yes_or_no(before_.verified), yes_or_no(now_.verified));
    add_difference("message", size_text(before_.message_bytes), size_text(now_.message_bytes));
    add_difference("seconds a cell", number_text(before_.seconds_per_cell),
                   number_text(now_.seconds_per_cell));
    add_difference("ranks", fmt::format("{}", before_.ranks), fmt::format("{}", now_.ranks));
    add_difference("launcher", before_.launcher, now_.launcher);
  }

  void find_end_differences() {
    for (std::size_t i = 0; i < place_now_.size(); ++i) {
      if (!place_now_[i]) continue;
      const End& before = before_.ends[i];
      const End& now = now_.ends[*place_now_[i]];
      const std::string name = key_text(keys_before_[i]);
      add_difference("link of " + name, known_link_text(before.link_bytes_per_second),
                     known_link_text(now.link_bytes_per_second));
      add_difference("device of " + name, before.device, now.device);
      add_difference("path of " + name, before.path, now.path);
      add_difference("distance of " + name, before.distance, now.distance);
    }
  }

  void compare_phase(Phase phase) {
    std::map<CellKey, const Cell*> cells_now;
    for (const Cell& cell : cells_of(now_, phase)) cells_now[{cell.source, cell.target}] = &cell;
    for (const Cell& before : cells_of(before_, phase)) {
      const auto source = place_now_[before.source];
      const auto target = place_now_[before.target];
      if (!source || !target) continue;
      const auto now = cells_now.find({*source, *target});
      compare_cells(phase, before, now == cells_now.end() ? nullptr : now->second);
    }
  }

  void compare_cells(Phase phase, const Cell& before, const Cell* now) {
    const bool had = before.state == CellState::measured;
    const bool has = now != nullptr && now->state == CellState::measured;
    CellChange change{.phase = phase,
                      .source = key_text(keys_before_[before.source]),
                      .target = key_text(keys_before_[before.target]),
                      .before = had ? before.bytes_per_second : 0,
                      .now = has ? now->bytes_per_second : 0};
    if (had && has) return compare_rates(std::move(change));
    if (had) {
      change.problem = problem_of(now);
      comparison_.lost.push_back(std::move(change));
    } else if (has) {
      change.problem = problem_of(&before);
      comparison_.regained.push_back(std::move(change));
    }
  }

  static std::string problem_of(const Cell* cell) {
    if (cell == nullptr) return "the run has no such cell";
    const std::string state(cell->state == CellState::not_measured ? "not measured"
                                                                   : name_of(cell->state));
    return cell->problem.empty() ? state : state + ": " + cell->problem;
  }

  void compare_rates(CellChange change) {
    ++comparison_.compared;
    if (change.before > 0) change.relative = change.now / change.before - 1;
    // As factors, so that a change and its reverse both count or both do not.
    if (change.before > change.now * (1 + MatrixComparison::kNoise)) {
      comparison_.worse.push_back(std::move(change));
    } else if (change.now > change.before * (1 + MatrixComparison::kNoise)) {
      comparison_.better.push_back(std::move(change));
    }
  }

  const MatrixRun& before_;
  const MatrixRun& now_;
  std::vector<EndKey> keys_before_;
  std::vector<EndKey> keys_now_;
  std::vector<std::optional<std::size_t>> place_now_;  ///< for each end of `before_`
  MatrixComparison comparison_;
};

}  // namespace

Outcome<MatrixComparison> compare_matrices(const MatrixRun& before, const MatrixRun& now) {
  Comparing comparing(before, now);
  if (!comparing.has_common_end()) {
    return fail(
        "compare: the saved run and this one have no host, NIC and memory in common; compare runs "
        "of the same cluster",
        kExitUsage);
  }
  return comparing.compare();
}

}  // namespace hbmwire::tools::perf::all
