// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace hbmwire::detail {

/// Something that its worker looks after with each tick, as long as it is in the worker's
/// ClockList.
class ByClock {
 public:
  using Clock = std::chrono::steady_clock;

  ByClock(const ByClock&) = delete;
  ByClock& operator=(const ByClock&) = delete;

  virtual void look_after(Clock::time_point at) noexcept = 0;

  /// By when the worker wakes up for it, if nothing else wakes it.
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

/// The things that a worker looks after, in the order in which they came. The links are their own:
/// an end that has to be looked after, a close above all, must not need memory for that.
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

  /// Nothing happens where it is not in here.
  void remove(ByClock& each) noexcept {
    if (!std::exchange(each.listed_, false)) return;
    if (next_ == &each) next_ = each.behind_;
    (each.before_ != nullptr ? each.before_->behind_ : first_) = each.behind_;
    (each.behind_ != nullptr ? each.behind_->before_ : last_) = each.before_;
    each.before_ = each.behind_ = nullptr;
  }

  /// Each of them may go meanwhile, and others may come.
  void look_after(Clock::time_point at) noexcept {
    for (next_ = first_; next_ != nullptr;) {
      ByClock& each = *next_;
      next_ = each.behind_;
      each.look_after(at);
    }
    begun_ = 0;
  }

  /// Whether one more of the things that take long may begin within the worker's look: many of them
  /// would hold all else up.
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
  ByClock* next_ = nullptr;  // that look_after() comes to
  unsigned begun_ = 0;       // since its last end
};

}  // namespace hbmwire::detail
