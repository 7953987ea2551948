// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "tools/common/colours.hpp"
#include "tools/perf/all/labelled.hpp"
#include "tools/perf/all/presentation.hpp"
#include "tools/perf/table.hpp"

namespace hbmwire::tools::perf::all {
namespace {

constexpr std::size_t kMostChanges = 16;  // printed of each kind

/// Prints one comparison.
class ComparisonReport {
 public:
  ComparisonReport(const MatrixComparison& comparison, const MatrixStyle& style, bool gigabits)
      : comparison_(comparison),
        columns_(std::clamp(style.columns, 80U, 200U)),  // as MatrixStyle says
        coloured_(style.coloured),
        speed_{.gigabits = gigabits} {}

  std::vector<std::string> lines() {
    add_changes("LOST", comparison_.lost, kRed);
    add_texts("not the same", comparison_.differences);
    add_texts("only before", comparison_.only_before);
    add_texts("only now", comparison_.only_now);
    add_changes("WORSE", comparison_.worse, kRed);
    add_changes("better", comparison_.better, kGreen);
    add_changes("regained", comparison_.regained, kGreen);
    add_fact("compared", summary());
    return std::move(lines_);
  }

 private:
  void add_fact(const std::string& label, const std::string& text) {
    add_labelled(lines_, label, text, columns_);
  }

  void add_texts(const std::string& label, const std::vector<std::string>& texts) {
    for (std::size_t i = 0; i < std::min(texts.size(), kMostChanges); ++i)
      add_fact(i == 0 ? label : "", texts[i]);
    if (texts.size() > kMostChanges) add_fact("", more_text(texts.size()));
  }

  void add_changes(const std::string& label, const std::vector<CellChange>& changes,
                   const char* colour) {
    const std::size_t first = lines_.size();
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < std::min(changes.size(), kMostChanges); ++i)
      texts.push_back(change_text(changes[i]));
    for (std::size_t i = 0; i < texts.size(); ++i) add_fact(i == 0 ? label : "", texts[i]);
    if (changes.size() > kMostChanges) add_fact("", more_text(changes.size()));
    if (!coloured_) return;
    for (std::size_t i = first; i < lines_.size(); ++i) lines_[i] = colour + lines_[i] + kPlain;
  }

  static std::string more_text(std::size_t size) {
    return fmt::format("and {} more; --json and --out_json_file have all", size - kMostChanges);
  }

  [[nodiscard]] std::string change_text(const CellChange& change) const {
    std::string way = fmt::format("{} to {}", change.source, change.target);
    if (change.phase == Phase::all_at_once) way = "all at once: " + way;
    if (change.phase == Phase::many_to_one) way = "many to one: " + way;
    if (change.problem.empty()) {
      return fmt::format("{:+.1f}%, {}, before {}: {}", change.relative * 100, speed(change.now),
                         speed(change.before), way);
    }
    // A regained cell has a figure now, a lost one had it before.
    return change.now > 0
               ? fmt::format("{}: {}; before: {}", way, speed(change.now), change.problem)
               : fmt::format("{}: before {}; now {}", way, speed(change.before), change.problem);
  }

  [[nodiscard]] std::string speed(double rate) const { return speed_text(rate, speed_); }

  [[nodiscard]] std::string summary() const {
    return fmt::format(
        "{} cells: {} worse and {} better by more than {:.0f}%; {} lost, {} regained",
        comparison_.compared, comparison_.worse.size(), comparison_.better.size(),
        MatrixComparison::kNoise * 100, comparison_.lost.size(), comparison_.regained.size());
  }

  const MatrixComparison& comparison_;
  unsigned columns_;
  bool coloured_;
  Style speed_;
  std::vector<std::string> lines_;
};

Json changes_json(const std::vector<CellChange>& changes) {
  const auto or_null = [](double rate) { return rate > 0 ? Json(rate) : Json(nullptr); };
  Json list = Json::array();
  for (const CellChange& change : changes)
    list.push_back({{"phase", name_of(change.phase)},
                    {"source", change.source},
                    {"target", change.target},
                    {"before", or_null(change.before)},
                    {"now", or_null(change.now)},
                    {"relative", change.relative},
                    {"problem", change.problem}});
  return list;
}

}  // namespace

std::vector<std::string> comparison_lines(const MatrixComparison& comparison,
                                          const MatrixStyle& style, bool gigabits) {
  return ComparisonReport(comparison, style, gigabits).lines();
}

Json to_json(const MatrixComparison& comparison) {
  return {
      {"noise", MatrixComparison::kNoise},         {"compared", comparison.compared},
      {"lost", changes_json(comparison.lost)},     {"worse", changes_json(comparison.worse)},
      {"better", changes_json(comparison.better)}, {"regained", changes_json(comparison.regained)},
      {"only_before", comparison.only_before},     {"only_now", comparison.only_now},
      {"differences", comparison.differences}};
}

}  // namespace hbmwire::tools::perf::all
