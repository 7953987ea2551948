// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "bench/common/contest.hpp"

namespace hbmwire::bench {

/// The rows of several kinds, in this order.
std::vector<Row> joined(std::initializer_list<std::vector<Row>> kinds);

/// The main() of a benchmark: reads the command line, measures the chosen rows, and prints them.
/// `rows` is called once, before anything is measured: some rows fork their peer process then.
int run_program(int argc, char** argv, const char* about,
                const std::function<std::vector<Row>()>& rows);

}  // namespace hbmwire::bench
