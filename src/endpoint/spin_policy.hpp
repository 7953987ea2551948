// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

namespace hbmwire::detail {

/// Whether who waits polls for a while before it sleeps. That spares it being woken, which takes
/// longer than most of what is waited for. But where the other end runs on the same CPU polling
/// keeps it from running, and what it says comes a moment after the sleep began, each time.
class SpinPolicy {
 public:
  /// For how long a wait polls: some round trips of a small message, so that short waits cost no
  /// wake-up.
  static constexpr std::chrono::microseconds kSpin{50};

  /// At the beginning of a wait.
  [[nodiscard]] bool polls() noexcept { return in_vain_ < kInVain || ++not_polled_ % kOften == 0; }

  /// Polling was enough.
  void came_while_polling() noexcept { in_vain_ = 0; }

  /// It was not: what came ended a sleep.
  void slept(std::chrono::nanoseconds time) noexcept {
    // A longer one tells nothing: there was nothing to be polled for.
    if (time < kBriefly && in_vain_ < kInVain) ++in_vain_;
  }

 private:
  // The other end polls for as long, too, before it lets this one run.
  static constexpr auto kBriefly = 4 * kSpin;
  // In a row, some ten milliseconds: where there is another CPU the kernel has moved one of both
  // ends there by then, which it does to who polls and not to who sleeps.
  static constexpr unsigned kInVain = 256;
  static constexpr unsigned kOften = 64;  // one of so many finds out what is so now

  unsigned in_vain_ = 0;
  unsigned not_polled_ = 0;
};

}  // namespace hbmwire::detail
