// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "tools/common/staging.hpp"
#include "tools/wire/perf_messages.hpp"

namespace hbmwire::tools::perf {

/// The next multiple of `unit`.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// The division of the buffer: a half to send from, and a half to receive into. Each half has an
/// area for each flow of each queue pair.
struct Layout {
  std::uint64_t area_bytes = 0;
  std::uint32_t queue_pairs = 1;
  std::uint32_t flows = 1;

  /// Areas with room for the request's largest size.
  static Layout of(const wire::PerfRequest& request);

  /// All areas of one queue pair in a half.
  [[nodiscard]] std::uint64_t lane_bytes() const noexcept { return area_bytes * flows; }

  [[nodiscard]] std::uint64_t half_bytes() const noexcept { return lane_bytes() * queue_pairs; }

  [[nodiscard]] std::uint64_t total_bytes() const noexcept { return 2 * half_bytes(); }

  /// The beginning of a queue pair's areas in the source or target half.
  [[nodiscard]] std::uint64_t source(std::uint32_t lane) const noexcept {
    return lane_bytes() * lane;
  }

  [[nodiscard]] std::uint64_t target(std::uint32_t lane) const noexcept {
    return half_bytes() + source(lane);
  }
};

/// The places that the messages of a queue pair use in turn. Small messages cycle through a page,
/// as in perftest, so that they do not all hit one cache line. Larger ones stay in one place.
struct Slots {
  std::uint64_t size_bytes = 0;        ///< of a message, without its header
  std::uint32_t header_bytes = 0;      ///< bytes before each message: the GRH of a datagram
  std::vector<std::uint64_t> offsets;  ///< relative to the beginning of the queue pair's areas

  /// As many slots as a page holds, but at least one, in the area of each flow.
  static Slots of(const Layout& layout, std::uint64_t size_bytes, std::uint32_t header_bytes = 0);

  /// The part of an area that the slots take, including gaps.
  [[nodiscard]] std::uint64_t span_bytes(const Layout& layout) const noexcept;
};

/// The GRH that comes before a datagram (IBTA 11.4.2.1).
inline constexpr std::uint32_t kGrhBytes = 40;

}  // namespace hbmwire::tools::perf
