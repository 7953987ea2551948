// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "hbmwire/context.hpp"

#include "bench/common/contest.hpp"

namespace hbmwire::bench {

/// The rows of each kind, in the order of the table.
std::vector<Row> hit_rows(const Context& context);
std::vector<Row> thread_rows(const Context& context);
std::vector<Row> miss_rows(const Context& context);

}  // namespace hbmwire::bench
