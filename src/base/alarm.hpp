// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include "hbmwire/error.hpp"

namespace hbmwire {

class Alarms;

/// Has something done at a time (CLOCK_MONOTONIC), whether or not anybody calls the library then.
/// One thread serves all of a process; it is there while anything is due, and has been joined when
/// the last Alarm has gone. Move-only.
///
/// A child by fork(2) has no such thread: the alarms that it inherits never ring there, and cost
/// nothing to destroy.
class Alarm {
 public:
  using Clock = std::chrono::steady_clock;

  Alarm() noexcept = default;

  /// `ring` is called once, in the thread of the alarms, one at a time: it should be short, must
  /// not throw, and must not destroy an Alarm. Errors: Errc::exhausted (no thread).
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

  /// It rings no more: when this returns, `ring` has ended or will never be called.
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
