// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "emulation/rocm/abi/hsa.h"

namespace hbmwire::emulation::rocm {

/// A number that programs and engines wait for. Thread-safe.
class Signal {
 public:
  explicit Signal(hsa_signal_value_t value) : value_(value) {}

  [[nodiscard]] hsa_signal_value_t load() const;
  void store(hsa_signal_value_t value);

  /// Changes the value by `change`. Returns the old value.
  template <typename Change>
  hsa_signal_value_t change(Change change) {
    const std::lock_guard lock(mutex_);
    const hsa_signal_value_t before = value_;
    value_ = change(before);
    changed_.notify_all();  // with the lock held: a woken thread may destroy the signal
    return before;
  }

  /// Waits until the condition holds or the time is over. Returns the value at that time.
  hsa_signal_value_t wait(hsa_signal_condition_t condition, hsa_signal_value_t compare,
                          std::chrono::nanoseconds at_most);

  static bool holds(hsa_signal_value_t value, hsa_signal_condition_t condition,
                    hsa_signal_value_t compare);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  hsa_signal_value_t value_;
};

}  // namespace hbmwire::emulation::rocm
