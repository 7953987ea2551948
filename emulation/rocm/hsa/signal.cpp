// SPDX-License-Identifier: MIT
#include "emulation/rocm/hsa/signal.hpp"

namespace hbmwire::emulation::rocm {

bool Signal::holds(hsa_signal_value_t value, hsa_signal_condition_t condition,
                   hsa_signal_value_t compare) {
  switch (condition) {
    case HSA_SIGNAL_CONDITION_EQ:
      return value == compare;
    case HSA_SIGNAL_CONDITION_NE:
      return value != compare;
    case HSA_SIGNAL_CONDITION_LT:
      return value < compare;
    case HSA_SIGNAL_CONDITION_GTE:
      return value >= compare;
  }
  return true;
}

hsa_signal_value_t Signal::load() const {
  const std::lock_guard lock(mutex_);
  return value_;
}

// Notifies with the lock held, because a woken thread may destroy the signal.
void Signal::store(hsa_signal_value_t value) {
  const std::lock_guard lock(mutex_);
  value_ = value;
  changed_.notify_all();
}

hsa_signal_value_t Signal::wait(hsa_signal_condition_t condition, hsa_signal_value_t compare,
                                std::chrono::nanoseconds at_most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, at_most, [&] { return holds(value_, condition, compare); });
  return value_;
}

}  // namespace hbmwire::emulation::rocm
