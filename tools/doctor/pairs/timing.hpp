// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "hbmwire/deadline.hpp"

namespace hbmwire::tools::doctor {

/// Bytes that a pair writes and reads, each of which is compared: enough for a bandwidth, and small
/// enough that card memory fits a container's /dev/shm of 64 MiB where the card is emulated.
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{4} << 20;

/// One request.
inline constexpr std::uint64_t kPieceBytes = std::uint64_t{512} << 10;

/// Requests under way: 4 MiB are more than any NIC of today has on its wire.
inline constexpr std::uint32_t kDepth = 8;

/// The whole run ends within a minute; what is under way then takes its time.
inline constexpr std::chrono::seconds kRunBudget{45};

/// A NIC, or a memory, that hung so often is left alone: each time costs the patience for a step.
inline constexpr unsigned kMostHangs = 2;

/// How long things may take.
struct Timing {
  std::chrono::milliseconds step{10'000};  ///< a step, and the process that it goes on in
  std::chrono::milliseconds measure{300};  ///< the timed part of a pair, at most
  Deadline budget = Deadline::never();     ///< no pair is begun after it
};

/// The timed part for so many pairs, 15 s in all: comparing the bytes, opening cards and making
/// connections take twice as long, and 72 pairs are to be done within a minute.
[[nodiscard]] constexpr std::chrono::milliseconds measured_time(std::size_t pairs) noexcept {
  constexpr std::size_t kAllMs = 15'000;
  const std::size_t each = kAllMs / std::max<std::size_t>(pairs, 1);
  return std::chrono::milliseconds(std::clamp<std::size_t>(each, 40, 300));
}

}  // namespace hbmwire::tools::doctor
