// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include "hbmwire/error.hpp"

namespace hbmwire {

class Alarms;

/// Calls a function at a time (CLOCK_MONOTONIC), even if the application does not call the library
/// then. One thread serves all alarms of a process. It exists while an alarm is due, and has been
/// joined when the last Alarm is destroyed. Move-only.
///
/// A child by fork(2) has no such thread: inherited alarms never ring there, and cost nothing to
/// destroy.
class Alarm {
 public:
  using Clock = std::chrono::steady_clock;

  Alarm() noexcept = default;

  /// `ring` is called once, by the thread of the alarms, which rings one alarm at a time. It should
  /// be short, must not throw, and must not destroy an Alarm. Errors: Errc::exhausted (no thread).
  static Result<Alarm> set(Clock::time_point when, std::function<void()> ring);

  Alarm(Alarm&& other) noexcept { *this = std::move(other); }

  Alarm& operator=(Alarm&& other) noexcept {
    if (this == &other) return *this;
    reset();
    alarms_ = std::exchange(other.alarms_, nullptr);
    when_ = other.when_;
    id_ = other.id_;
    return *this;
  }

  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  ~Alarm() { reset(); }

  /// Cancels the alarm. When this returns, `ring` has ended or will never be called.
  void reset() noexcept;

 private:
  friend class Alarms;

  Alarm(Alarms* alarms, Clock::time_point when, std::uint64_t id) noexcept
      : alarms_(alarms), when_(when), id_(id) {}

  Alarms* alarms_ = nullptr;
  Clock::time_point when_;
  std::uint64_t id_ = 0;
};

}  // namespace hbmwire
