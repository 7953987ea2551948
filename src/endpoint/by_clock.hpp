// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

namespace hbmwire::detail {

/// Something that its worker looks after with each tick.
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

  ~ByClock() = default;

  void set_due(Clock::time_point due) noexcept { due_ = due; }

 private:
  Clock::time_point due_;
};

}  // namespace hbmwire::detail
