// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/common/columns.hpp"
#include "tools/common/lines.hpp"
#include "tools/common/text.hpp"
#include "tools/perf/all/failures.hpp"
#include "tools/perf/all/grid.hpp"
#include "tools/perf/all/labelled.hpp"
#include "tools/perf/all/names.hpp"
#include "tools/perf/all/outliers.hpp"
#include "tools/perf/all/presentation.hpp"
#include "tools/perf/all/statistics.hpp"
#include "tools/perf/table.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::perf::all {
namespace {

constexpr std::size_t kMostOutliers = 16;
constexpr std::size_t kMostWorstCells = 8;
constexpr std::size_t kMostFailures = 12;
constexpr std::size_t kMostLegendRanks = 64;
constexpr std::size_t kMostTargets = 16;

using Lines = std::vector<std::string>;

std::string_view words_of(CellState state) {
  return state == CellState::not_measured ? "not measured" : name_of(state);
}

std::string_view words_of(Phase phase) {
  switch (phase) {
    case Phase::all_at_once:
      return "all at once";
    case Phase::many_to_one:
      return "many to one";
    default:
      return "pairs";
  }
}

std::string title_line(const MatrixRun& run) {
  const std::string launcher = run.launcher.empty() ? "" : fmt::format(" ({})", run.launcher);
  return fmt::format("{} ranks{}, {} NICs with a memory, messages of {}, {:.3g} s a cell{}{}",
                     run.ranks, launcher, run.ends.size(), size_text(run.message_bytes),
                     run.seconds_per_cell, run.emulated ? ", emulated hardware" : "",
                     run.verified ? "" : ", NOT VERIFIED");
}

std::string grid_title(const Grid& grid, const RateUnit& unit, double typical) {
  const std::string typical_text =
      fmt::format("{:.2f} {}", typical / unit.bytes_per_second, unit.name);
  switch (grid.kind) {
    case GridKind::ends:
      return fmt::format("{} from row to column", unit.name);
    case GridKind::ranks:
      return fmt::format("{} from rank (row) to rank (column), of their slowest NICs", unit.name);
    case GridKind::digits:
      break;
  }
  const std::string rows = grid.ranks_per_row == 1
                               ? "each row and column a rank"
                               : fmt::format("each row and column {} ranks", grid.ranks_per_row);
  return fmt::format(
      "from row to column, {}, of their slowest NICs: tenths of the typical {}, 9 is "
      "0.9 or more",
      rows, typical_text);
}

Lines legend_as_table(const MatrixRun& run) {
  // Columns of words are aligned to the left.
  Columns columns({"", "rank", "host", "NIC", "memory", "link", "distance", "path"},
                  {0, 2, 3, 4, 6, 7});
  for (std::size_t i = 0; i < run.ends.size(); ++i) {
    const End& end = run.ends[i];
    const std::string memory = end.device.empty() ? end.memory : end.device;
    const std::string link =
        end.link_bytes_per_second > 0 ? link_text(end.link_bytes_per_second) : "-";
    columns.add({fmt::format(" #{}", i), fmt::format("{}", end.rank), wire::printable(end.host),
                 wire::printable(end.nic), wire::printable(memory), link,
                 wire::printable(end.distance.empty() ? "-" : end.distance),
                 wire::printable(end.path)});
  }
  return columns.lines();
}

// A table, or a wrapped sentence for each end where names are too long for one.
Lines legend_of_ends(const MatrixRun& run, unsigned columns) {
  Lines lines = legend_as_table(run);
  if (std::ranges::all_of(lines, [&](const auto& line) { return line.size() <= columns; }))
    return lines;
  lines.clear();
  for (std::size_t i = 0; i < run.ends.size(); ++i) {
    const End& end = run.ends[i];
    std::string text = end_text(end);
    if (end.link_bytes_per_second > 0) text += ", link " + link_text(end.link_bytes_per_second);
    if (!end.distance.empty()) text += ", distance " + end.distance;
    if (!end.path.empty()) text += ", " + end.path;
    add_labelled(lines, fmt::format("#{}", i), text, columns);
  }
  return lines;
}

Lines legend_of_ranks(const MatrixRun& run, unsigned columns) {
  std::map<std::uint32_t, std::string> texts;
  for (const End& end : run.ends) {
    std::string& text = texts[end.rank];
    text += text.empty() ? end.host + ":" : ",";
    text += fmt::format(" {} ({})", end.nic, end.memory);
  }
  Lines lines;
  std::size_t shown = 0;
  for (const auto& [rank, text] : texts) {
    if (shown++ == kMostLegendRanks) break;
    add_labelled(lines, fmt::format("rank {}", rank), text, columns);
  }
  if (texts.size() > kMostLegendRanks) {
    add_labelled(lines, "", fmt::format("and {} more ranks", texts.size() - kMostLegendRanks),
                 columns);
  }
  return lines;
}

/// Prints one run; each function adds a part of it.
class Report {
 public:
  Report(const MatrixRun& run, const MatrixStyle& style, bool gigabits)
      : run_(run),
        style_(style),
        gigabits_(gigabits),
        speed_{.gigabits = gigabits},
        outliers_(outliers_of(run)) {
    style_.columns = std::clamp(style.columns, 80U, 200U);  // as MatrixStyle says
  }

  Lines lines() {
    add_wrapped(lines_, wire::printable(title_line(run_)), /*indent=*/0, style_.columns);
    add_matrix();
    for (const Phase phase : kPhases) add_figures(phase);
    add_targets();
    add_outliers();
    add_failures();
    add_broken();
    add_verification();
    return std::move(lines_);
  }

 private:
  [[nodiscard]] std::string speed(double rate) const { return speed_text(rate, speed_); }

  void add_fact(const std::string& label, const std::string& text) {
    add_labelled(lines_, label, text, style_.columns);
  }

  void add_matrix() {
    if (run_.ends.empty()) return;
    const double typical = outliers_.typical_bytes_per_second;
    const Grid grid = grid_of(run_, style_, gigabits_);
    lines_.emplace_back();
    add_wrapped(lines_, grid_title(grid, unit_for(typical, gigabits_), typical), /*indent=*/0,
                style_.columns);
    append(lines_, grid.lines);
    if (grid.has_failures) add_wrapped(lines_, kMarks, /*indent=*/1, style_.columns);
    lines_.emplace_back();
    append(lines_, grid.kind == GridKind::ends ? legend_of_ends(run_, style_.columns)
                                               : legend_of_ranks(run_, style_.columns));
    lines_.emplace_back();
    if (grid.kind != GridKind::ends) add_worst_cells();
  }

  void add_worst_cells() {
    std::vector<const Cell*> cells;
    for (const Cell& cell : run_.pairs) {
      if (cell.state == CellState::measured) cells.push_back(&cell);
    }
    const std::size_t shown = std::min(kMostWorstCells, cells.size());
    std::ranges::partial_sort(cells, cells.begin() + static_cast<std::ptrdiff_t>(shown), {},
                              &Cell::bytes_per_second);
    for (std::size_t i = 0; i < shown; ++i) {
      add_fact(i == 0 ? "slowest cells" : "",
               fmt::format("{}: {}", speed(cells[i]->bytes_per_second), way_text(*cells[i])));
    }
  }

  [[nodiscard]] std::string way_text(const Cell& cell) const {
    return fmt::format("{} to {}", end_text(run_.ends[cell.source]),
                       end_text(run_.ends[cell.target]));
  }

  [[nodiscard]] std::string spread_text(const Spread& spread) const {
    return fmt::format("min {}, median {}, max {}", speed(spread.min), speed(spread.median),
                       speed(spread.max));
  }

  void add_figures(Phase phase) {
    const auto& cells = cells_of(run_, phase);
    if (cells.empty()) return;
    const auto rates = rates_of(cells);
    const auto spread = spread_of(rates);
    std::string text = fmt::format("{} of {} cells measured", rates.size(), cells.size());
    if (spread) text = spread_text(*spread) + "; " + text;
    if (spread && phase == Phase::pairs)
      text += fmt::format("; typical {}", speed(outliers_.typical_bytes_per_second));
    add_fact(std::string(words_of(phase)), text);
    if (phase != Phase::pairs) add_sums(cells);
  }

  void add_sums(const std::vector<Cell>& cells) {
    const auto sums = target_sums(cells);
    const auto whole = whole_sums(sums);
    if (const auto spread = spread_of(whole)) {
      double total = 0;
      for (const double rate : whole) total += rate;
      add_fact("", fmt::format("sums of {} targets: {}; together {}", whole.size(),
                               spread_text(*spread), speed(total)));
    }
    if (whole.size() != sums.size()) {
      add_fact("", fmt::format(
                       "targets without a sum: {}, since some of their sources did not reach them",
                       sums.size() - whole.size()));
    }
  }

  // Each target of many-to-one that something reached, where they are few.
  void add_targets() {
    const auto sums = target_sums(run_.many_to_one);
    if (sums.size() > kMostTargets) return;
    for (const TargetSum& sum : sums) {
      if (sum.measured == 0) continue;
      const End& target = run_.ends[sum.target];
      std::string text = fmt::format("{} to {}", speed(sum.bytes_per_second), end_text(target));
      text += fmt::format(" from {} of {}", sum.measured, sum.measured + sum.failed);
      if (target.link_bytes_per_second > 0 && sum.failed == 0) {
        text += fmt::format(", {:.0f}% of its link",
                            sum.bytes_per_second / target.link_bytes_per_second * 100);
      }
      add_fact("", text);
    }
  }

  void add_outliers() {
    std::vector<std::string> texts;
    for (const SlowEnd& slow : outliers_.ends) texts.push_back(slow_end_text(slow));
    for (const SlowPair& slow : outliers_.pairs) {
      texts.push_back(fmt::format("{}: {}, {:.2f} of the typical: {}", way_text(slow.cell),
                                  speed(slow.cell.bytes_per_second), slow.ratio, slow.reason));
    }
    add_list("slow", texts, kMostOutliers, "more slow ends and pairs");
    if (texts.empty() && outliers_.typical_bytes_per_second > 0)
      add_fact("slow", fmt::format("none: no cell is below {} of the typical rate", kSlowShare));
  }

  [[nodiscard]] std::string slow_end_text(const SlowEnd& slow) const {
    const End& end = run_.ends[slow.end];
    const std::string_view role = slow.as_source && slow.as_target ? "source and target"
                                  : slow.as_source                 ? "source"
                                                                   : "target";
    const std::string memory = end.device.empty() ? end.memory + " memory" : end.device;
    return fmt::format("{} {}, {} (rank {}): {:.2f} of the typical in its {} cells as {}: {}",
                       end.host, end.nic, memory, end.rank, slow.ratio, slow.cells, role,
                       slow.reason);
  }

  void add_list(const std::string& label, const std::vector<std::string>& texts, std::size_t most,
                const std::string& more) {
    for (std::size_t i = 0; i < std::min(most, texts.size()); ++i)
      add_fact(i == 0 ? label : "", texts[i]);
    if (texts.size() > most) add_fact("", fmt::format("and {} {}", texts.size() - most, more));
  }

  void add_failures() {
    for (const Phase phase : kPhases) {
      std::vector<std::string> texts;
      for (const FailureGroup& group : failures_of(run_, cells_of(run_, phase)))
        texts.push_back(failure_text(group, phase));
      add_list("no figure", texts, kMostFailures, "more problems");
    }
  }

  static std::string failure_text(const FailureGroup& group, Phase phase) {
    std::string text =
        fmt::format("{} {}, {}: {}", group.cells, group.cells == 1 ? "cell" : "cells",
                    words_of(group.state), group.where);
    if (phase != Phase::pairs) text = fmt::format("{}: {}", words_of(phase), text);
    if (!group.problem.empty()) text += ": " + group.problem;
    if (group.problems > 1) text += fmt::format(" (and {} other problems)", group.problems - 1);
    return text;
  }

  void add_broken() {
    std::vector<std::string> texts;
    for (const BrokenRank& broken : run_.broken)
      texts.push_back(fmt::format("{}: {}", rank_text(broken.rank, broken.host), broken.problem));
    std::string more = "more broken ranks:";
    for (std::size_t i = kMostOutliers; i < run_.broken.size(); ++i)
      more += fmt::format("{} {}", i == kMostOutliers ? "" : ",", run_.broken[i].rank);
    add_list("broken ranks", texts, kMostOutliers, more);
  }

  void add_verification() {
    std::size_t corrupt = 0;
    for (const Phase phase : kPhases)
      corrupt += static_cast<std::size_t>(
          std::ranges::count(cells_of(run_, phase), CellState::corrupt, &Cell::state));
    const std::string wrong =
        corrupt == 0 ? "no cell corrupt"
                     : fmt::format("{} {} CORRUPT", corrupt, corrupt == 1 ? "cell" : "cells");
    add_fact(
        "verification",
        run_.verified
            ? fmt::format("{} compared at the targets, {}", size_text(verified_bytes(run_)), wrong)
            : std::string("NOT VERIFIED (--no-verify): the bytes at the targets were not "
                          "compared"));
  }

  const MatrixRun& run_;
  MatrixStyle style_;
  bool gigabits_;
  Style speed_;
  Outliers outliers_;
  Lines lines_;
};

}  // namespace

std::vector<std::string> matrix_lines(const MatrixRun& run, const MatrixStyle& style,
                                      bool gigabits) {
  return Report(run, style, gigabits).lines();
}

}  // namespace hbmwire::tools::perf::all
