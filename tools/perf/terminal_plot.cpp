// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tools/perf/chart.hpp"

namespace hbmwire::tools::perf {
namespace {

constexpr std::size_t kRows = 14;
constexpr std::size_t kMargin = 10;   // room for the marks of values
constexpr std::size_t kOverhang = 2;  // the last size's label may end so far right of the plot
constexpr unsigned kLeastColumns = 20;
constexpr unsigned kMostColumns = 100;

char sign_of(Series::Role role) {
  switch (role) {
    case Series::Role::main:
      return '*';
    case Series::Role::second:
      return '+';
    case Series::Role::limit:
      return '-';
    case Series::Role::saved:
      return 'o';
  }
  return '?';
}

// The order of drawing: the current run covers everything else.
int rank_of(Series::Role role) {
  switch (role) {
    case Series::Role::main:
      return 3;
    case Series::Role::second:
      return 2;
    case Series::Role::saved:
      return 1;
    case Series::Role::limit:
      return 0;
  }
  return 0;
}

class Canvas {
 public:
  Canvas(const Chart& chart, std::size_t width)
      : values_(value_axis(chart)),
        sizes_(size_axis(chart)),
        width_(width),
        lines_(kRows, std::string(width, ' ')) {}

  void draw(const Series& series) {
    for (const Point& point : series.points) {
      if (!values_.holds(point.value)) continue;
      lines_[row_of(point.value)][column_of(static_cast<double>(point.size_bytes))] =
          sign_of(series.role);
    }
  }

  // Adds the marks of values left of the lines. If two fall on one line, the higher one stays.
  [[nodiscard]] std::vector<std::string> with_values() const {
    std::vector<std::string> labels(kRows);
    for (const double mark : values_.marks) labels[row_of(mark)] = mark_text(mark);
    std::vector<std::string> all;
    for (std::size_t i = 0; i < kRows; ++i) {
      std::string line = fmt::format("{:>{}} {}{}", labels[i], kMargin - 2,
                                     labels[i].empty() ? '|' : '+', lines_[i]);
      line.erase(line.find_last_not_of(' ') + 1);
      all.push_back(std::move(line));
    }
    return all;
  }

  // Writes as many sizes as fit, each below its column.
  [[nodiscard]] std::string sizes_line() const {
    std::string line(kMargin, ' ');
    for (const double size : sizes_.marks) {
      const std::string label = short_size_text(static_cast<std::uint64_t>(size));
      const std::size_t middle = kMargin + column_of(size);
      const std::size_t at = middle - std::min(middle, label.size() / 2);
      const bool is_first = line.size() == kMargin;
      const bool touches_last = !is_first && at < line.size() + 1;
      if (touches_last || at + label.size() > kMargin + width_ + kOverhang) continue;
      line.resize(std::max(at, line.size()), ' ');
      line += label;
    }
    return line;
  }

 private:
  [[nodiscard]] std::size_t column_of(double size) const {
    return static_cast<std::size_t>(
        std::lround(sizes_.place(size) * static_cast<double>(width_ - 1)));
  }

  [[nodiscard]] std::size_t row_of(double value) const {
    const auto from_below =
        static_cast<std::size_t>(std::lround(values_.place(value) * (kRows - 1)));
    return kRows - 1 - from_below;
  }

  Axis values_;
  Axis sizes_;
  std::size_t width_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> terminal_plot(const Chart& chart, unsigned columns) {
  if (chart.series.empty()) return {};
  const std::size_t width = std::clamp(columns, kLeastColumns, kMostColumns) - kMargin - kOverhang;
  std::vector<const Series*> order;
  for (const Series& series : chart.series) order.push_back(&series);
  std::ranges::stable_sort(order, {}, [](const Series* series) { return rank_of(series->role); });
  Canvas canvas(chart, width);
  for (const Series* series : order) canvas.draw(*series);

  std::vector<std::string> lines{fmt::format("{} [{}]", chart.figure, chart.unit)};
  for (std::string& line : canvas.with_values()) lines.push_back(std::move(line));
  lines.push_back(std::string(kMargin - 1, ' ') + "+" + std::string(width, '-'));
  lines.push_back(canvas.sizes_line());
  std::string key = std::string(kMargin, ' ') + "message size [bytes]";
  for (const Series& series : chart.series)
    key += fmt::format("   {} {}", sign_of(series.role), series.name);
  lines.push_back(std::move(key));
  return lines;
}

}  // namespace hbmwire::tools::perf
