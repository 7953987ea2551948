// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "hbmwire/deadline.hpp"

namespace hbmwire::tools::doctor {

/// Bytes that a pair writes, reads and compares. They suffice to measure a bandwidth, and an
/// emulated card's memory still fits into the 64 MiB of a container's /dev/shm.
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{4} << 20;

/// Bytes of one request.
inline constexpr std::uint64_t kPieceBytes = std::uint64_t{512} << 10;

/// Requests in flight. Together they have 4 MiB, more than the wire of any NIC of today holds.
inline constexpr std::uint32_t kDepth = 8;

/// No pair begins later than this, so that the whole run ends within a minute. Only the pair in
/// progress may take longer.
inline constexpr std::chrono::seconds kRunBudget{45};

/// After this many hangs a NIC, or a memory, is skipped, because each hang costs the full timeout
/// of a step.
inline constexpr unsigned kMostHangs = 2;

/// Limits of time.
struct Timing {
  std::chrono::milliseconds step{10'000};  ///< the limit of a step, after which its process is
                                           ///< ended
  std::chrono::milliseconds measure{300};  ///< the longest measurement of a pair
  Deadline budget = Deadline::never();     ///< no pair begins after this
};

/// The time to measure each of so many pairs, 15 s in total. Comparing bytes, opening cards and
/// connecting take twice as long, and 72 pairs must be done within a minute.
[[nodiscard]] constexpr std::chrono::milliseconds measured_time(std::size_t pairs) noexcept {
  constexpr std::size_t kAllMs = 15'000;
  constexpr std::size_t kLeastMs = 40;
  constexpr std::size_t kMostMs = 300;
  const std::size_t each = kAllMs / std::max<std::size_t>(pairs, 1);
  return std::chrono::milliseconds(std::clamp(each, kLeastMs, kMostMs));
}

}  // namespace hbmwire::tools::doctor
