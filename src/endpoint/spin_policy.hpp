// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

namespace hbmwire::detail {

/// Decides whether a thread that waits polls for a while before it sleeps. Polling avoids a
/// wake-up, which takes longer than most waits. But if the other end runs on the same CPU, polling
/// keeps it from running, and its answer always comes a moment after the sleep began. Then polling
/// is a waste.
class SpinPolicy {
 public:
  /// How long a wait polls: some round trips of a small message, so that short waits cost no
  /// wake-up.
  static constexpr std::chrono::microseconds kSpin{50};

  /// Whether a wait that begins now polls. Counts waits that do not.
  [[nodiscard]] bool polls() noexcept { return in_vain_ < kInVain || ++not_polled_ % kOften == 0; }

  /// The wait ended while polling.
  void came_while_polling() noexcept { in_vain_ = 0; }

  /// The wait ended in a sleep of this length.
  void slept(std::chrono::nanoseconds time) noexcept {
    // A longer sleep tells nothing: polling could not have caught it.
    if (time < kBriefly && in_vain_ < kInVain) ++in_vain_;
  }

 private:
  // The other end polls for as long, too, before it lets this one run.
  static constexpr auto kBriefly = 4 * kSpin;
  // Waits in a row, together some ten milliseconds. If there is another CPU, the kernel has moved
  // one of the two ends to it by then. The kernel moves threads that poll, but not threads that
  // sleep.
  static constexpr unsigned kInVain = 256;
  static constexpr unsigned kOften = 64;  // one wait of this many polls all the same, to find out
                                          // whether that has changed

  unsigned in_vain_ = 0;
  unsigned not_polled_ = 0;
};

}  // namespace hbmwire::detail
