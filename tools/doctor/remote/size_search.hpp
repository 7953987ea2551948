// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

namespace hbmwire::tools::doctor {

/// Finds the largest packet that arrives, in rounds of sizes that are sent at once. A lost size
/// costs the time of its repetitions, and a bisection would pay that for one size after the other.
///
/// The first round is the smallest size, the second one the largest. Only if the largest is lost,
/// the common sizes of networks follow, and then sizes in between. A round of sizes in between
/// always contains the size right after the largest that arrived, so that the search ends at once
/// if a common size is the limit.
class SizeSearch {
 public:
  /// `smallest` must not exceed `largest`; equal ones are one round.
  SizeSearch(std::uint32_t smallest, std::uint32_t largest);

  /// The sizes to send now, increasing; empty at the end of the search.
  [[nodiscard]] const std::vector<std::uint32_t>& round() const noexcept { return round_; }

  /// How often an unanswered size is sent before it counts as lost.
  [[nodiscard]] unsigned tries() const noexcept;

  /// A packet of that size arrived. Sizes of earlier rounds count, too.
  void arrived(std::uint32_t size);

  /// Ends the round: its sizes that did not arrive are lost.
  void end_round();

  /// Whether all sizes of the round have arrived.
  [[nodiscard]] bool is_round_answered() const noexcept;

  /// The largest size that arrived; 0 if none did.
  [[nodiscard]] std::uint32_t arrived_bytes() const noexcept { return arrived_; }

 private:
  void choose();

  std::uint32_t smallest_;
  std::uint32_t largest_;
  std::uint32_t arrived_ = 0;
  std::uint32_t lost_;  // the smallest size that did not arrive; largest_ + 1 at first
  unsigned rounds_ = 0;
  std::vector<std::uint32_t> round_;
};

}  // namespace hbmwire::tools::doctor
