// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/serial.hpp"

namespace hbmwire::detail {

/// How long the oldest operation has been under way, for operations that begin and end in one
/// order. It needs only two counters, which are sampled now and then, so that beginning and ending
/// an operation costs nothing.
///
/// The answer is never more than the truth. It may be less by the time between two samples, plus
/// `step`, since only a few samples are remembered.
class OldestWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit OldestWatch(std::chrono::nanoseconds step) noexcept : step_(step) {}

  /// Takes a sample. `begun` and `ended` count operations, and wrap around. 0: none is under way.
  std::chrono::nanoseconds look(std::uint32_t begun, std::uint32_t ended, Time now) noexcept {
    while (count_ != 0 && !is_before(ended, marks_[0].begun)) drop_first();
    // Marks operations that began since the last mark, if that was a step ago.
    const bool more = begun != ended && (count_ == 0 || marks_[count_ - 1].begun != begun);
    if (more && (count_ == 0 || (count_ < kMarks && now - marks_[count_ - 1].at >= step_)))
      marks_[count_++] = {begun, now};
    return count_ == 0 ? std::chrono::nanoseconds(0) : now - marks_[0].at;
  }

  // Enough marks for a caller whose patience is at most this many steps.
  static constexpr std::size_t kMarks = 16;

 private:
  // Every operation with an index below `begun` had begun at `at`.
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
