// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "tools/perf/parameters.hpp"

namespace hbmwire::tools::perf {

/// Bursts of messages at a rate, in ticks of the clock.
struct Pace {
  std::uint64_t gap_ticks = 0;  ///< time between bursts; 0: no limit
  std::uint64_t burst = 1;
};

/// The pace that the request's rate limit allows for messages of `size_bytes`.
[[nodiscard]] Pace pace_of(const PerfRequest& request, std::uint64_t size_bytes,
                           double ns_per_tick) noexcept;

}  // namespace hbmwire::tools::perf
