// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/perf/result.hpp"
#include "tools/perf/table.hpp"

/// A sweep as a drawing: what is drawn, whatever it is drawn with.
namespace hbmwire::tools::perf {

struct Point {
  std::uint64_t size_bytes = 0;
  double value = 0;

  bool operator==(const Point&) const = default;
};

struct Series {
  enum class Role : std::uint8_t { main, second, limit, saved };

  std::string name;
  Role role = Role::main;
  std::vector<Point> points;  ///< ascending sizes, values above 0
};

struct Chart {
  std::string title;
  std::string subtitle;
  std::string unit;    ///< of the values: "GB/s", "us"
  std::string figure;  ///< what they are: "bandwidth"
  bool log_values = false;
  std::vector<Series> series;
};

/// Bandwidth (average and peak) from 0 up, or latency (typical and 99 %) by its logarithm; with the
/// limit that the verdict goes by, and `saved`, a run to compare with, where there is one. Rows
/// whose bytes did not arrive are left out.
[[nodiscard]] Chart chart_of(const RunResult& run, const Style& style,
                             const RunResult* saved = nullptr);

/// An axis of values: where its marks stand, the first and the last being its ends.
struct Axis {
  bool logarithmic = false;
  std::vector<double> marks;

  /// 0 at the first mark, 1 at the last.
  [[nodiscard]] double place(double value) const;

  [[nodiscard]] bool holds(double value) const {
    return value >= marks.front() && value <= marks.back();
  }
};

/// Marks of 1, 2 or 5 times a power of ten (of every power of ten when logarithmic), around all
/// values of the chart but limits far above them: those are not in sight.
[[nodiscard]] Axis value_axis(const Chart& chart);

/// By the logarithm, from the least size to the greatest.
[[nodiscard]] Axis size_axis(const Chart& chart);

/// "64", "4K", "1M".
[[nodiscard]] std::string short_size_text(std::uint64_t bytes);

/// Without needless zeros: "0.5", "20".
[[nodiscard]] std::string mark_text(double value);

/// --plot: one SVG file.
[[nodiscard]] std::string svg_of(const Chart& chart);

/// For a terminal of so many columns (20 at least); plain ASCII, lines without an end.
[[nodiscard]] std::vector<std::string> terminal_plot(const Chart& chart, unsigned columns);

}  // namespace hbmwire::tools::perf
