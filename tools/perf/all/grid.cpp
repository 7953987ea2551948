// SPDX-License-Identifier: MIT
#include "tools/perf/all/grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/common/colours.hpp"
#include "tools/perf/all/outliers.hpp"
#include "tools/perf/all/statistics.hpp"

namespace hbmwire::tools::perf::all {
namespace {

constexpr std::size_t kMostEnds = 16;
constexpr std::size_t kLeastWidth = 4;  // "9.8", "123", and a blank
constexpr std::size_t kWideWidth = 7;   // "123.45", and a blank
constexpr double kVerySlowShare = 0.5;  // of the typical rate: red below it

/// The rows of the grid; its columns are the same.
struct Axis {
  std::vector<std::size_t> place_of_end = {};  // the row of each end of the run
  std::vector<std::string> names = {};
};

/// All cells from one row's ends to one column's.
struct GridCell {
  std::size_t measured = 0;
  double slowest = 0;
  CellState worst = CellState::measured;
};

int badness(CellState state) {
  switch (state) {
    case CellState::measured:
      return 0;
    case CellState::not_measured:
      return 1;
    case CellState::unreachable:
      return 2;
    case CellState::broken:
      return 3;
    case CellState::corrupt:
      return 4;
  }
  return 0;
}

char mark_of(const GridCell& cell) {
  switch (cell.worst) {
    case CellState::not_measured:
      return '?';
    case CellState::unreachable:
      return 'x';
    case CellState::broken:
      return '!';
    case CellState::corrupt:
      return '#';
    default:
      return '-';  // no cell at all
  }
}

Axis axis_of_ends(const MatrixRun& run) {
  Axis axis;
  for (std::size_t i = 0; i < run.ends.size(); ++i) {
    axis.place_of_end.push_back(i);
    axis.names.push_back(fmt::format("#{}", i));
  }
  return axis;
}

std::map<std::uint32_t, std::size_t> places_of_ranks(const MatrixRun& run) {
  std::map<std::uint32_t, std::size_t> places;
  for (const End& end : run.ends) places.try_emplace(end.rank, 0);
  std::size_t place = 0;
  for (auto& [rank, own] : places) own = place++;
  return places;
}

Axis axis_of_ranks(const MatrixRun& run, std::size_t per_row) {
  const auto places = places_of_ranks(run);
  Axis axis;
  for (const End& end : run.ends) axis.place_of_end.push_back(places.at(end.rank) / per_row);
  for (const auto& [rank, place] : places) {
    if (place % per_row == 0) axis.names.push_back(fmt::format("{}", rank));
  }
  return axis;
}

// The cells of the grid, row by row.
std::vector<GridCell> grid_cells(const MatrixRun& run, const Axis& axis) {
  std::vector<GridCell> cells(axis.names.size() * axis.names.size());
  for (const Cell& from : run.pairs) {
    GridCell& cell =
        cells[axis.place_of_end[from.source] * axis.names.size() + axis.place_of_end[from.target]];
    if (badness(from.state) > badness(cell.worst)) cell.worst = from.state;
    if (from.state != CellState::measured) continue;
    if (cell.measured == 0 || from.bytes_per_second < cell.slowest)
      cell.slowest = from.bytes_per_second;
    ++cell.measured;
  }
  return cells;
}

bool has_figure(const GridCell& cell) {
  return cell.measured != 0 && cell.worst == CellState::measured;
}

const char* colour_of(const GridCell& cell, double typical) {
  if (cell.worst == CellState::not_measured) return kYellow;
  if (cell.worst != CellState::measured) return kRed;
  if (cell.slowest < kVerySlowShare * typical) return kRed;
  return cell.slowest < kSlowShare * typical ? kYellow : kGreen;
}

// The bounds are those at which rounding would add a digit.
std::string figure_text(double value, std::size_t width) {
  if (width >= kWideWidth && value < 999.995) return fmt::format("{:.2f}", value);
  if (value < 0.095) return fmt::format("{:.2f}", value).substr(1);
  if (value < 9.95) return fmt::format("{:.1f}", value);
  if (value < 999.5) return fmt::format("{:.0f}", value);
  // Never wider than three characters: the thousands of the unit, then its millions.
  if (value < 99.5e3) return fmt::format("{:.0f}k", value / 1e3);
  return value < 99.5e6 ? fmt::format("{:.0f}M", value / 1e6) : ">M";
}

// Tenths of the typical rate, "9" for all from 0.9 up.
char digit_of(double rate, double typical) {
  const double tenths = typical > 0 ? rate / typical * 10 : 9;
  return static_cast<char>('0' + static_cast<int>(std::clamp(tenths, 0.0, 9.0)));
}

/// Draws the grid, whose rows and columns are one axis.
class Drawing {
 public:
  Drawing(const MatrixRun& run, Axis axis, double typical, bool coloured)
      : axis_(std::move(axis)),
        cells_(grid_cells(run, axis_)),
        typical_(typical),
        coloured_(coloured) {
    for (const auto& name : axis_.names) label_ = std::max(label_, name.size());
  }

  [[nodiscard]] std::size_t label() const noexcept { return label_; }

  [[nodiscard]] bool has_failures() const {
    return std::ranges::any_of(
        cells_, [](const GridCell& cell) { return cell.worst != CellState::measured; });
  }

  [[nodiscard]] std::vector<std::string> figures(std::size_t width, double unit) const {
    std::string head(label_ + 1, ' ');
    for (const auto& name : axis_.names) head += fmt::format("{:>{}}", name, width);
    std::vector<std::string> lines{head};
    for (std::size_t row = 0; row < axis_.names.size(); ++row) {
      std::string line = fmt::format(" {:>{}}", axis_.names[row], label_);
      for (std::size_t column = 0; column < axis_.names.size(); ++column) {
        const GridCell& cell = at(row, column);
        const std::string text = has_figure(cell) ? figure_text(cell.slowest / unit, width)
                                                  : std::string(1, mark_of(cell));
        line += std::string(width > text.size() ? width - text.size() : 1, ' ');
        line += painted(text, cell);
      }
      lines.push_back(std::move(line));
    }
    return lines;
  }

  [[nodiscard]] std::vector<std::string> digits() const {
    std::vector<std::string> lines{ruler()};
    for (std::size_t row = 0; row < axis_.names.size(); ++row) {
      std::string line = fmt::format(" {:>{}} ", axis_.names[row], label_);
      for (std::size_t column = 0; column < axis_.names.size(); ++column) {
        const GridCell& cell = at(row, column);
        line += painted(
            std::string(1, has_figure(cell) ? digit_of(cell.slowest, typical_) : mark_of(cell)),
            cell);
      }
      lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  [[nodiscard]] const GridCell& at(std::size_t row, std::size_t column) const {
    return cells_[row * axis_.names.size() + column];
  }

  // The name of each tenth column, from its place on.
  [[nodiscard]] std::string ruler() const {
    const std::size_t before = label_ + 2;
    std::string line(before, ' ');
    for (std::size_t column = 0; column < axis_.names.size(); column += 10) {
      const std::string& name = axis_.names[column];
      if (column + name.size() > axis_.names.size()) break;
      line.resize(before + column, ' ');
      line += name;
    }
    return line;
  }

  [[nodiscard]] std::string painted(const std::string& text, const GridCell& cell) const {
    const bool empty = cell.measured == 0 && cell.worst == CellState::measured;
    if (!coloured_ || empty) return text;
    return colour_of(cell, typical_) + text + kPlain;
  }

  Axis axis_;
  std::vector<GridCell> cells_;
  double typical_;
  bool coloured_;
  std::size_t label_ = 0;
};

// The width of a column: wide, or one blank more than needed, if there is room, else what fits.
std::size_t width_for(std::size_t rows, std::size_t label, unsigned columns) {
  const std::size_t room = columns > label + 1 ? columns - label - 1 : 0;
  const std::size_t width = rows == 0 ? kWideWidth : room / rows;
  return width >= kWideWidth ? kWideWidth : width >= kLeastWidth + 1 ? kLeastWidth + 1 : width;
}

Grid figures_grid(GridKind kind, const Drawing& drawing, std::size_t width, const RateUnit& unit) {
  return {.kind = kind,
          .ranks_per_row = 1,
          .has_failures = drawing.has_failures(),
          .lines = drawing.figures(width, unit.bytes_per_second)};
}

Grid digits_grid(const MatrixRun& run, const MatrixStyle& style, double typical) {
  constexpr std::size_t kLabel = 12;  // the longest number of a rank, and two blanks
  const std::size_t ranks = places_of_ranks(run).size();
  const std::size_t room = style.columns - kLabel;
  const std::size_t per_row = (ranks + room - 1) / room;
  const Drawing drawing(run, axis_of_ranks(run, per_row), typical, style.coloured);
  return {.kind = GridKind::digits,
          .ranks_per_row = per_row,
          .has_failures = drawing.has_failures(),
          .lines = drawing.digits()};
}

}  // namespace

RateUnit unit_for(double typical_bytes_per_second, bool gigabits) {
  const double rate = typical_bytes_per_second * (gigabits ? 8 : 1);
  const bool mega = rate > 0 && rate < 1e8;
  const double unit = (mega ? 1e6 : 1e9) / (gigabits ? 8 : 1);
  return {.bytes_per_second = unit,
          .name = std::string(mega ? "M" : "G") + (gigabits ? "b/s" : "B/s")};
}

Grid grid_of(const MatrixRun& run, const MatrixStyle& style, bool gigabits) {
  const double typical = typical_rate(run);
  const RateUnit unit = unit_for(typical, gigabits);
  if (run.ends.size() <= kMostEnds) {
    const Drawing drawing(run, axis_of_ends(run), typical, style.coloured);
    const std::size_t width = width_for(run.ends.size(), drawing.label(), style.columns);
    // Wide enough for a figure, and for the name above it.
    if (width >= std::max(kLeastWidth, drawing.label() + 1))
      return figures_grid(GridKind::ends, drawing, width, unit);
  }
  const std::size_t ranks = places_of_ranks(run).size();
  if (ranks * kLeastWidth < style.columns) {
    const Drawing drawing(run, axis_of_ranks(run, 1), typical, style.coloured);
    const std::size_t width = width_for(ranks, drawing.label(), style.columns);
    if (width >= std::max(kLeastWidth, drawing.label() + 1))
      return figures_grid(GridKind::ranks, drawing, width, unit);
  }
  return digits_grid(run, style, typical);
}

}  // namespace hbmwire::tools::perf::all
