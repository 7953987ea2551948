// SPDX-License-Identifier: MIT
#include "tools/perf/pace.hpp"

#include <algorithm>

namespace hbmwire::tools::perf {

Pace pace_of(const PerfRequest& request, std::uint64_t size_bytes, double ns_per_tick) noexcept {
  double messages_per_ns = static_cast<double>(request.messages_per_second) / 1e9;
  if (request.bytes_per_second != 0) {
    messages_per_ns =
        static_cast<double>(request.bytes_per_second) / 1e9 / static_cast<double>(size_bytes);
  }
  if (messages_per_ns <= 0) return {};
  const std::uint32_t burst = std::max(request.burst, request.post_list);
  // The slowest rates with the largest bursts would need more than 64 bits. A gap longer than any
  // run is enough.
  constexpr double kLongestTicks = 1e18;
  const double gap = burst / messages_per_ns / ns_per_tick;
  return {.gap_ticks = static_cast<std::uint64_t>(std::clamp(gap, 1.0, kLongestTicks)),
          .burst = burst};
}

}  // namespace hbmwire::tools::perf
