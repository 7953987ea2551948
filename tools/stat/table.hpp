// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "tools/stat/rows.hpp"
#include "tools/stat/sample.hpp"

// The output of a sample for people.
namespace hbmwire::tools::stats {

/// The table, and below it the other facts about each process and its NICs. At most 100 columns
/// wide, unless rows are split by peers with long names.
[[nodiscard]] std::vector<std::string> table_lines(const Sample& sample, SplitBy split);

/// "12345", "123.4 GiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

/// "1234.5 MiB/s", "123.4 GiB/s".
[[nodiscard]] std::string rate_text(double bytes_per_second);

/// "4.1 us".
[[nodiscard]] std::string time_text(std::chrono::nanoseconds time);

}  // namespace hbmwire::tools::stats
