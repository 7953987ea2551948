// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/serial.hpp"

namespace hbmwire::detail {

/// How long the oldest of the things has been under way that begin and end in one order, from two
/// counters that are looked at now and then: what begins and ends pays nothing for it.
///
/// The answer is never more than the truth. It is less by what passes between two looks, and by
/// `step`, since only so many moments are remembered.
class OldestWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit OldestWatch(std::chrono::nanoseconds step) noexcept : step_(step) {}

  /// `begun` and `ended` count (and wrap around). 0: nothing is under way.
  std::chrono::nanoseconds look(std::uint32_t begun, std::uint32_t ended, Time now) noexcept {
    while (count_ != 0 && !is_before(ended, marks_[0].begun)) drop_first();
    const bool more = begun != ended && (count_ == 0 || marks_[count_ - 1].begun != begun);
    if (more && (count_ == 0 || (count_ < kMarks && now - marks_[count_ - 1].at >= step_)))
      marks_[count_++] = {begun, now};
    return count_ == 0 ? std::chrono::nanoseconds(0) : now - marks_[0].at;
  }

  // An owner looks at them until its patience of some steps ends, and needs no more.
  static constexpr std::size_t kMarks = 16;

 private:
  // All that has an index below `begun` had begun at `at`.
  struct Mark {
    std::uint32_t begun = 0;
    Time at;
  };

  void drop_first() noexcept {
    --count_;
    for (std::size_t i = 0; i < count_; ++i) marks_[i] = marks_[i + 1];
  }

  std::chrono::nanoseconds step_;
  std::array<Mark, kMarks> marks_{};
  std::size_t count_ = 0;
};

}  // namespace hbmwire::detail
