// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/perf/result.hpp"
#include "tools/perf/table.hpp"

/// The contents of a drawing of a sweep, whatever the output format.
namespace hbmwire::tools::perf {

struct Point {
  std::uint64_t size_bytes = 0;
  double value = 0;

  bool operator==(const Point&) const = default;
};

struct Series {
  enum class Role : std::uint8_t {
    main,    ///< the average, or the typical value
    second,  ///< the peak, or 99 %
    limit,   ///< the limit that the verdict uses
    saved,   ///< the main values of the saved run
  };

  std::string name;
  Role role = Role::main;
  std::vector<Point> points;  ///< sizes ascend, values are above 0
};

struct Chart {
  std::string title;
  std::string subtitle;
  std::string unit;    ///< unit of the values: "GB/s", "us"
  std::string figure;  ///< the name of the values: "bandwidth"
  bool log_values = false;
  std::vector<Series> series;
};

/// Shows bandwidth (average and peak) on a scale from 0, or latency (typical and 99 %) on a
/// logarithmic scale. Adds the limit that the verdict uses, and the run `saved` for comparison, if
/// they exist. Leaves out rows whose bytes did not arrive.
[[nodiscard]] Chart chart_of(const RunResult& run, const Style& style,
                             const RunResult* saved = nullptr);

/// An axis of values with its marks. The first and the last mark are its ends.
struct Axis {
  bool logarithmic = false;
  std::vector<double> marks;

  /// The position of a value: 0 at the first mark, 1 at the last.
  [[nodiscard]] double place(double value) const;

  [[nodiscard]] bool holds(double value) const {
    return value >= marks.front() && value <= marks.back();
  }
};

/// Marks at 1, 2 or 5 times a power of ten (at every power of ten on a logarithmic scale), around
/// all values of the chart. Limits far above the values are ignored.
[[nodiscard]] Axis value_axis(const Chart& chart);

/// A logarithmic axis from the smallest size to the largest.
[[nodiscard]] Axis size_axis(const Chart& chart);

/// "64", "4K", "1M".
[[nodiscard]] std::string short_size_text(std::uint64_t bytes);

/// A number without needless zeros: "0.5", "20".
[[nodiscard]] std::string mark_text(double value);

/// The file for --plot: one SVG.
[[nodiscard]] std::string svg_of(const Chart& chart);

/// A plot in plain ASCII, `columns` wide (taken as 20 to 100): one string for each line, without
/// newline.
[[nodiscard]] std::vector<std::string> terminal_plot(const Chart& chart, unsigned columns);

}  // namespace hbmwire::tools::perf
