// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "bench/common/contest.hpp"

namespace hbmwire::bench {

/// The rows of some kinds, in this order.
std::vector<Row> joined(std::initializer_list<std::vector<Row>> kinds);

/// A benchmark's main(): reads the command line, measures the rows that are wanted, and prints
/// them. `rows` is called when the processes that have to be forked first are there.
int run_program(int argc, char** argv, const char* about,
                const std::function<std::vector<Row>()>& rows);

}  // namespace hbmwire::bench
