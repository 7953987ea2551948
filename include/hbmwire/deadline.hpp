// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

namespace hbmwire {

/// A point in time (CLOCK_MONOTONIC) after which a wait gives up. A value; freely copied.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(Clock::time_point when) noexcept : when_(when) {}

  static Deadline after(std::chrono::nanoseconds duration) noexcept {
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(duration));
  }

  [[nodiscard]] bool passed() const noexcept { return Clock::now() >= when_; }

  /// Milliseconds left, rounded up, never negative: poll(2)'s timeout.
  [[nodiscard]] int poll_timeout_ms() const noexcept {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(when_ - Clock::now()).count();
    if (left <= 0) return 0;
    constexpr long long kLongestMs =
        3'600'000;  // poll's int is never at risk, and an hour is long enough to ask again
    return static_cast<int>(left < kLongestMs ? left : kLongestMs);
  }

 private:
  Clock::time_point when_;
};

/// How long to wait, and what ends the wait early: `cancel_fd` (or -1) becoming readable gives
/// Errc::cancelled.
struct Wait {
  Deadline deadline;
  int cancel_fd = -1;
};

}  // namespace hbmwire
