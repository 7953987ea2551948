// SPDX-License-Identifier: MIT
#include "tools/perf/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tools/perf/verdict.hpp"

namespace hbmwire::tools::perf {
namespace {

double in_unit(double bytes_per_second, const Style& style) {
  return bytes_per_second * (style.gigabits ? kBitsPerByte : 1) / 1e9;
}

using Value = std::function<double(const Row&)>;

void add_series(Chart& chart, const RunResult& run, std::string name, Series::Role role,
                const Value& value) {
  Series series{.name = std::move(name), .role = role, .points = {}};
  for (const Row& row : run.rows) {
    const double shown = row.is_trusted() ? value(row) : 0;
    // Size 0 has no place on a logarithmic axis.
    if (shown > 0 && std::isfinite(shown))
      series.points.push_back(
          {.size_bytes = std::max<std::uint64_t>(row.size_bytes, 1), .value = shown});
  }
  if (!series.points.empty()) chart.series.push_back(std::move(series));
}

// Each size has its own limit, since the speed of a copy depends on the size.
double limit_at(const RunResult& run, const Row& row) {
  RunResult one = run;
  one.rows = {row};
  const auto verdict = judge(one).verdict;
  return verdict ? verdict->limit.bytes_per_second : 0;
}

void add_bandwidth(Chart& chart, const RunResult& run, const Style& style) {
  add_series(chart, run, "average", Series::Role::main, [&](const Row& row) {
    return row.bandwidth ? in_unit(row.bandwidth->average_bytes_per_second, style) : 0;
  });
  add_series(chart, run, "peak", Series::Role::second, [&](const Row& row) {
    return row.bandwidth ? in_unit(row.bandwidth->peak_bytes_per_second, style) : 0;
  });
  add_series(chart, run, run.verdict ? run.verdict->limit.what : "limit", Series::Role::limit,
             [&](const Row& row) { return in_unit(limit_at(run, row), style); });
}

void add_latency(Chart& chart, const RunResult& run) {
  add_series(chart, run, "typical", Series::Role::main,
             [](const Row& row) { return row.latency ? row.latency->typical_ns / 1e3 : 0; });
  add_series(chart, run, "99 %", Series::Role::second,
             [](const Row& row) { return row.latency ? row.latency->percentile_99_ns / 1e3 : 0; });
}

void add_saved(Chart& chart, const RunResult& saved, const Style& style) {
  add_series(chart, saved, "saved run", Series::Role::saved, [&](const Row& row) {
    if (row.bandwidth) return in_unit(row.bandwidth->average_bytes_per_second, style);
    return row.latency ? row.latency->typical_ns / 1e3 : 0;
  });
}

struct Range {
  double least = std::numeric_limits<double>::infinity();
  double greatest = 0;

  void take(double value) {
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
};

// The chart shows a limit only if it is at most this many times the highest value reached.
constexpr double kSight = 1.5;

Range range_of_values(const Chart& chart) {
  Range range;
  for (const Series& series : chart.series) {
    if (series.role == Series::Role::limit) continue;
    for (const Point& point : series.points) range.take(point.value);
  }
  const double sight = range.greatest * kSight;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      if (point.value <= sight) range.take(point.value);
    }
  }
  return range.greatest > 0 ? range : Range{.least = 1, .greatest = 1};
}

Axis powers_of_ten(const Range& range) {
  const double first = std::floor(std::log10(range.least));
  const double last = std::max(std::ceil(std::log10(range.greatest)), first + 1);  // two marks
  Axis axis{.logarithmic = true, .marks = {}};
  for (double power = first; power <= last; ++power) axis.marks.push_back(std::pow(10, power));
  return axis;
}

// Makes about five steps of 1, 2 or 5 times a power of ten. 1e-9 absorbs rounding errors.
Axis steps_from_zero(double greatest) {
  constexpr double kSteps = 5;
  const double rough = greatest / kSteps;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double digit = rough / power;
  double step = 10 * power;
  for (const double nice : {5.0, 2.0, 1.0}) {
    if (digit <= nice * (1 + 1e-9)) step = nice * power;
  }
  Axis axis;
  for (double i = 0; i <= std::ceil(greatest / step - 1e-9); ++i) axis.marks.push_back(i * step);
  return axis;
}

}  // namespace

Chart chart_of(const RunResult& run, const Style& style, const RunResult* saved) {
  const bool bandwidth = run.measure == Measure::bandwidth;
  Chart chart;
  chart.title = run.title;
  chart.subtitle =
      fmt::format("{} to {}, {}{}{}", run.local.memory, run.remote.memory, run.local.path,
                  run.verified ? "" : ", NOT VERIFIED", run.emulated ? ", emulated hardware" : "");
  chart.figure = bandwidth ? "bandwidth" : "latency";
  chart.unit = bandwidth ? (style.gigabits ? "Gb/s" : "GB/s") : "us";
  chart.log_values = !bandwidth;
  if (saved != nullptr && saved->measure == run.measure) add_saved(chart, *saved, style);
  if (bandwidth) {
    add_bandwidth(chart, run, style);
  } else {
    add_latency(chart, run);
  }
  return chart;
}

double Axis::place(double value) const {
  const double first = marks.front();
  const double last = marks.back();
  if (last <= first) return 0.5;  // a single size
  const double share = logarithmic ? std::log(value / first) / std::log(last / first)
                                   : (value - first) / (last - first);
  return std::clamp(share, 0.0, 1.0);
}

Axis value_axis(const Chart& chart) {
  const Range range = range_of_values(chart);
  return chart.log_values ? powers_of_ten(range) : steps_from_zero(range.greatest);
}

Axis size_axis(const Chart& chart) {
  Axis axis{.logarithmic = true, .marks = {}};
  for (const Series& series : chart.series) {
    for (const Point& point : series.points)
      axis.marks.push_back(static_cast<double>(point.size_bytes));
  }
  if (axis.marks.empty()) axis.marks.push_back(1);
  std::ranges::sort(axis.marks);
  axis.marks.erase(std::unique(axis.marks.begin(), axis.marks.end()), axis.marks.end());
  return axis;
}

std::string short_size_text(std::uint64_t bytes) {
  constexpr std::string_view kUnits = "KMGTPE";
  std::uint64_t number = bytes;
  std::size_t unit = 0;
  while (number >= 1024 && number % 1024 == 0 && unit < kUnits.size()) {
    number /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{}", number) : fmt::format("{}{}", number, kUnits[unit - 1]);
}

std::string mark_text(double value) { return fmt::format("{:.6g}", value); }

}  // namespace hbmwire::tools::perf
