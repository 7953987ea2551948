// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "bench/common/contest.hpp"

namespace hbmwire::bench {

/// The head of the table, and one line of it.
std::string table_head();
std::string table_line(const Row& row, const Result& result);

/// All results and the machine, as JSON.
std::string json(const std::vector<Row>& rows, const std::vector<Result>& results);

/// The machine that was measured on: processor, kernel, load.
std::string describe_machine();

}  // namespace hbmwire::bench
