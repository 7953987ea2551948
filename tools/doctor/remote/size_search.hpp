// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

namespace hbmwire::tools::doctor {

/// Finds the largest packet that arrives, in rounds of sizes that are sent at once: a size that
/// does not arrive costs the time of its repetitions, and a bisection would pay that size by size.
///
/// The first round is the smallest size, the second one the largest. Only if that is lost come
/// sizes that networks often have, and then sizes in between. A round always has the size after the
/// largest that arrived, so that the search ends at once when a usual size is the limit.
class SizeSearch {
 public:
  /// `smallest` < `largest`; equal ones are one round.
  SizeSearch(std::uint32_t smallest, std::uint32_t largest);

  /// The sizes to be sent now, increasing; empty: the search is over.
  [[nodiscard]] const std::vector<std::uint32_t>& round() const noexcept { return round_; }

  /// How many times a size that is not answered is sent before it counts as lost.
  [[nodiscard]] unsigned tries() const noexcept;

  /// A packet of that size arrived; sizes of earlier rounds are taken, too.
  void arrived(std::uint32_t size);

  /// Sizes of this round that did not arrive are lost; the next round begins.
  void end_round();

  /// Whether no size of the round is waited for.
  [[nodiscard]] bool is_round_answered() const noexcept;

  /// The largest size that arrived; 0: none.
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
