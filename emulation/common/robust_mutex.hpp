// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/common/lock_word.hpp"

namespace hbmwire::emulation {

/// A mutex in memory that processes share. It survives the death of its holder: the next thread
/// that locks it inherits it (LockWord). The data that it guards must therefore be consistent when
/// half changed, and each user says why it is.
///
/// It also survives a holder that is stopped (SIGSTOP, a debugger): other threads give up instead
/// of waiting. It must be locked by Hold below, because std::lock_guard cannot report that.
class RobustMutex {
 public:
  /// Whether a thread holds it. A quick look, without a guarantee.
  [[nodiscard]] bool is_taken() const noexcept { return word_.holder() != 0; }

  using Taken = LockWord::Taken;

  /// Waits for a holder that runs. `no`: the holder was stopped, or has not moved for 10 s.
  [[nodiscard]] Taken lock() noexcept { return word_.take_if_free() ? Taken::yes : lock_slowly(); }

  /// As lock(), without waiting.
  [[nodiscard]] Taken try_lock() noexcept { return word_.try_lock(); }

  void unlock() noexcept { word_.unlock(); }

 private:
  Taken lock_slowly() noexcept;

  LockWord word_;
};

/// How often this process could not take a lock because its holder was stopped.
[[nodiscard]] std::uint64_t locks_not_had() noexcept;

/// Selects the constructors of Hold and the like that do not wait for the lock.
struct WithoutWaiting {};

/// Holds a lock to the end of a scope. If a stopped process has the lock, it is not held: check
/// held() at once.
class [[nodiscard]] Hold {
 public:
  explicit Hold(RobustMutex& mutex) noexcept : mutex_(mutex), taken_(mutex.lock()) {}

  Hold(RobustMutex& mutex, WithoutWaiting) noexcept : mutex_(mutex), taken_(mutex.try_lock()) {}

  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  Hold(Hold&&) = delete;
  Hold& operator=(Hold&&) = delete;

  ~Hold() {
    if (held()) mutex_.unlock();
  }

  [[nodiscard]] bool held() const noexcept { return taken_ != RobustMutex::Taken::no; }

  /// The last holder died with the lock held.
  [[nodiscard]] bool inherited() const noexcept { return taken_ == RobustMutex::Taken::inherited; }

 private:
  RobustMutex& mutex_;
  RobustMutex::Taken taken_;
};

}  // namespace hbmwire::emulation
