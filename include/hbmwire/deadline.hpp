// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

namespace hbmwire {

/// A point in time (CLOCK_MONOTONIC) after which a wait gives up. A value; freely copied. The
/// greatest duration of any unit means "for ever" (never()), and the least one "now": nothing here
/// overflows.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// Passes at `when`.
  explicit Deadline(Clock::time_point when) noexcept : when_(when) {}

  /// Passes `duration` from now on; a negative one has passed. An end beyond the clock's 292 years
  /// is never().
  template <class Rep, class Period>
  [[nodiscard]] static Deadline after(std::chrono::duration<Rep, Period> duration) noexcept {
    return Deadline(later(Clock::now(), duration));
  }

  /// A deadline that never passes.
  [[nodiscard]] static Deadline never() noexcept { return Deadline(Clock::time_point::max()); }

  /// `from` + `duration`, at most Clock::time_point::max() and at least Clock::time_point::min().
  template <class Rep, class Period>
  [[nodiscard]] static Clock::time_point later(
      Clock::time_point from, std::chrono::duration<Rep, Period> duration) noexcept {
    const Clock::duration counted = saturate(duration);
    Clock::duration::rep sum = 0;
    if (!__builtin_add_overflow(from.time_since_epoch().count(), counted.count(), &sum))
      return Clock::time_point(Clock::duration(sum));
    return counted < Clock::duration::zero() ? Clock::time_point::min() : Clock::time_point::max();
  }

  /// Whether it has passed.
  [[nodiscard]] bool passed() const noexcept { return Clock::now() >= when_; }

  /// The point in time; Clock::time_point::max() for never().
  [[nodiscard]] Clock::time_point when() const noexcept { return when_; }

  /// Milliseconds left, rounded up, never negative: poll(2)'s timeout. At most an hour, so that
  /// poll's int can't overflow: the caller then looks again.
  [[nodiscard]] int poll_timeout_ms() const noexcept {
    constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1);
    const auto now = Clock::now();
    if (when_ <= now) return 0;
    if (when_ >= later(now, kLongest)) return static_cast<int>(kLongest.count());
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(when_ - now).count());
  }

 private:
  /// `duration` in the clock's own unit; beyond its range, the clock's greatest or least duration.
  template <class Rep, class Period>
  [[nodiscard]] static constexpr Clock::duration saturate(
      std::chrono::duration<Rep, Period> duration) noexcept {
    // A long double holds every 64-bit integer where its mantissa has 64 bits. Elsewhere only
    // durations of more than a hundred years are rounded.
    using Real = std::chrono::duration<long double, Period>;
    const auto asked = static_cast<long double>(duration.count());
    if (asked >= Real(Clock::duration::max()).count()) return Clock::duration::max();
    if (asked <= Real(Clock::duration::min()).count()) return Clock::duration::min();
    return std::chrono::duration_cast<Clock::duration>(duration);
  }

  Clock::time_point when_;
};

/// How long to wait, and what ends the wait early. Every duration and Deadline converts to a Wait:
/// `endpoint.close(10s)` waits for 10 s from the call on. A function that takes a Wait gives
/// Errc::timed_out at the deadline and Errc::cancelled when `cancel_fd` becomes readable, unless it
/// says otherwise.
struct Wait {
  /// Until `at_most` from now on. "Now" is when this object is made.
  template <class Rep, class Period>
  // NOLINTNEXTLINE(google-explicit-constructor): a duration says it all
  Wait(std::chrono::duration<Rep, Period> at_most, int cancelled_by = -1) noexcept
      : deadline(Deadline::after(at_most)), cancel_fd(cancelled_by) {}

  /// Until a deadline.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Wait(Deadline until, int cancelled_by = -1) noexcept : deadline(until), cancel_fd(cancelled_by) {}

  Deadline deadline;  ///< when the wait gives up
  int cancel_fd;      ///< ends the wait when it becomes readable; -1: none. Stays the caller's
};

}  // namespace hbmwire
