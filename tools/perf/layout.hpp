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

/// How the buffer is divided: a half to send from, a half to receive into; in each an area for each
/// flow of each queue pair.
struct Layout {
  std::uint64_t area_bytes = 0;
  std::uint32_t queue_pairs = 1;
  std::uint32_t flows = 1;

  static Layout of(const wire::PerfRequest& request);

  [[nodiscard]] std::uint64_t lane_bytes() const noexcept { return area_bytes * flows; }

  [[nodiscard]] std::uint64_t half_bytes() const noexcept { return lane_bytes() * queue_pairs; }

  [[nodiscard]] std::uint64_t total_bytes() const noexcept { return 2 * half_bytes(); }

  /// Where a queue pair's areas begin in either half.
  [[nodiscard]] std::uint64_t source(std::uint32_t lane) const noexcept {
    return lane_bytes() * lane;
  }

  [[nodiscard]] std::uint64_t target(std::uint32_t lane) const noexcept {
    return half_bytes() + source(lane);
  }
};

/// The places through which a queue pair's messages go in turn. Small messages go through a page,
/// so that they don't all meet in one cache line, as perftest's do; larger ones stay in place.
struct Slots {
  std::uint64_t size_bytes = 0;        ///< of a message, what stands before it not counted
  std::uint32_t header_bytes = 0;      ///< before each message: a datagram's GRH
  std::vector<std::uint64_t> offsets;  ///< from where the queue pair's areas begin

  static Slots of(const Layout& layout, std::uint64_t size_bytes, std::uint32_t header_bytes = 0);

  /// The part of an area that they take, with what lies between them.
  [[nodiscard]] std::uint64_t span_bytes(const Layout& layout) const noexcept;
};

/// The GRH that comes before a datagram (IBTA 11.4.2.1).
inline constexpr std::uint32_t kGrhBytes = 40;

}  // namespace hbmwire::tools::perf
