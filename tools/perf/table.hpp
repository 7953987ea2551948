// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "tools/perf/result.hpp"

/// What `hbmwire perf` prints, as people know it from perftest: a banner between dashed lines, a
/// headline of columns, a line for each size. What perftest does not have stands in further columns
/// and below the table.
namespace hbmwire::tools::perf {

/// What the user chose for people to read.
struct Style {
  bool gigabits = false;  ///< --report_gbits: Gb/sec instead of MiB/sec
};

/// Two parameters a line, and who talks to whom; ends with a dashed line.
[[nodiscard]] std::string banner_text(const RunResult& run);

/// " #bytes     #iterations    BW peak[MiB/sec]    ...".
[[nodiscard]] std::string headline_text(Measure measure, const Style& style);

/// Figures of bytes that did not arrive are not shown.
[[nodiscard]] std::string row_text(const Row& row, Measure measure, const Style& style);

/// Below the table: verification, registration, paths and why no better ones, distances, verdict.
[[nodiscard]] std::vector<std::string> closing_lines(const RunResult& run, const Style& style);

/// "12.34 GB/s", "5.60 MB/s", or with --report_gbits "98.76 Gb/s".
[[nodiscard]] std::string speed_text(double bytes_per_second, const Style& style);

/// "830 ns", "12.3 us", "4.56 ms", "1.2 s".
[[nodiscard]] std::string duration_text(double nanoseconds);

}  // namespace hbmwire::tools::perf
