// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "tools/stat/rows.hpp"
#include "tools/stat/sample.hpp"

// A sample for people.
namespace hbmwire::tools::stats {

/// The table, and below it what else is known of each process and its NICs. 100 columns at most,
/// unless the rows tell peers with long names apart.
[[nodiscard]] std::vector<std::string> table_lines(const Sample& sample, SplitBy split);

/// "12345", "123.4 GiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

/// "1234.5 MiB/s", "123.4 GiB/s".
[[nodiscard]] std::string rate_text(double bytes_per_second);

/// "4.1 us".
[[nodiscard]] std::string time_text(std::chrono::nanoseconds time);

}  // namespace hbmwire::tools::stats
