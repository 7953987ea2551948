// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace hbmwire::detail {

/// Base of objects that their worker drives by the clock: it calls look_after() with each tick, as
/// long as the object is in the worker's ClockList.
class ByClock {
 public:
  using Clock = std::chrono::steady_clock;

  ByClock(const ByClock&) = delete;
  ByClock& operator=(const ByClock&) = delete;

  /// Does what is due at `at`.
  virtual void look_after(Clock::time_point at) noexcept = 0;

  /// The latest time at which the worker wakes up for it, if nothing else wakes it.
  [[nodiscard]] Clock::time_point due() const noexcept { return due_; }

 protected:
  explicit ByClock(Clock::time_point due = Clock::time_point::max()) noexcept : due_(due) {}

  virtual ~ByClock() = default;

  void set_due(Clock::time_point due) noexcept { due_ = due; }

 private:
  friend class ClockList;

  Clock::time_point due_;
  ByClock* before_ = nullptr;
  ByClock* behind_ = nullptr;
  bool listed_ = false;
};

/// The ByClock objects of a worker, in the order in which they came. A linked list through the
/// objects themselves, so that adding one needs no memory: a close must work without any.
class ClockList {
 public:
  using Clock = ByClock::Clock;

  ClockList() = default;
  ClockList(const ClockList&) = delete;
  ClockList& operator=(const ClockList&) = delete;
  ~ClockList() = default;

  void add(ByClock& each) noexcept {
    each.before_ = std::exchange(last_, &each);
    (each.before_ != nullptr ? each.before_->behind_ : first_) = &each;
    each.listed_ = true;
  }

  /// Does nothing if `each` is not in the list.
  void remove(ByClock& each) noexcept {
    if (!std::exchange(each.listed_, false)) return;
    if (next_ == &each) next_ = each.behind_;
    (each.before_ != nullptr ? each.before_->behind_ : first_) = each.behind_;
    (each.behind_ != nullptr ? each.behind_->before_ : last_) = each.before_;
    each.before_ = each.behind_ = nullptr;
  }

  /// Calls look_after() of each. A call may remove any of them, and add others.
  void look_after(Clock::time_point at) noexcept {
    for (next_ = first_; next_ != nullptr;) {
      ByClock& each = *next_;
      next_ = each.behind_;
      each.look_after(at);
    }
    begun_ = 0;
  }

  /// Whether one more slow piece of work may begin within this tick of the worker, and counts it as
  /// begun. Many of them in one tick would delay everything else.
  [[nodiscard]] bool may_begin() noexcept {
    constexpr unsigned kMost = 4;
    return begun_++ < kMost;
  }

  /// When the first one is due; time_point::max(): never.
  [[nodiscard]] Clock::time_point due() const noexcept {
    auto due = Clock::time_point::max();
    for (const ByClock* each = first_; each != nullptr; each = each->behind_)
      due = std::min(due, each->due());
    return due;
  }

  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const ByClock* each = first_; each != nullptr; each = each->behind_) visit(*each);
  }

 private:
  ByClock* first_ = nullptr;
  ByClock* last_ = nullptr;
  ByClock* next_ = nullptr;  // the next one that look_after() will call
  unsigned begun_ = 0;       // slow pieces of work begun since the last look_after() ended
};

}  // namespace hbmwire::detail
