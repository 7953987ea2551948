// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "tools/perf/result.hpp"

/// The output of `hbmwire perf`, in the form that users know from perftest: a banner between dashed
/// lines, a headline of columns, and a line for each size. Values that perftest does not have are
/// in more columns, and below the table.
namespace hbmwire::tools::perf {

/// The user's options for the output.
struct Style {
  bool gigabits = false;  ///< --report_gbits: Gb/sec instead of MiB/sec
};

/// Two parameters in a line, and the two sides; ends with a dashed line.
[[nodiscard]] std::string banner_text(const RunResult& run);

/// " #bytes     #iterations    BW peak[MiB/sec]    ...".
[[nodiscard]] std::string headline_text(Measure measure, const Style& style);

/// Figures are left out if the bytes did not arrive.
[[nodiscard]] std::string row_text(const Row& row, Measure measure, const Style& style);

/// The lines below the table: verification, registration, paths and why no better ones were taken,
/// distances, verdict.
[[nodiscard]] std::vector<std::string> closing_lines(const RunResult& run, const Style& style);

/// "12.34 GB/s", "5.60 MB/s", or with --report_gbits "98.76 Gb/s".
[[nodiscard]] std::string speed_text(double bytes_per_second, const Style& style);

/// "830 ns", "12.3 us", "4.56 ms", "1.2 s".
[[nodiscard]] std::string duration_text(double nanoseconds);

}  // namespace hbmwire::tools::perf
