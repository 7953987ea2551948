// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/common/lock_word.hpp"

namespace hbmwire::emulation {

/// A mutex in memory that processes share and that survives the death of its holder: whoever locks
/// next inherits it (LockWord). What it guards must therefore be harmless when half done; each user
/// says why it is.
///
/// It survives that its holder is stopped (SIGSTOP, a debugger), too: nobody waits for such a one.
/// Locked by Hold below, never by std::lock_guard, which has no way to say so.
class RobustMutex {
 public:
  /// Whether anybody has it, at a glance.
  [[nodiscard]] bool is_taken() const noexcept { return word_.holder() != 0; }

  using Taken = LockWord::Taken;

  /// Waits for a holder that runs. `no`: it was stopped, or has not moved for 10 s.
  [[nodiscard]] Taken lock() noexcept { return word_.try_free() ? Taken::yes : lock_slowly(); }

  /// Waits for nobody.
  [[nodiscard]] Taken try_lock() noexcept { return word_.try_lock(); }

  void unlock() noexcept { word_.unlock(); }

 private:
  Taken lock_slowly() noexcept;

  LockWord word_;
};

/// How often a lock of this process was not to be had, since its holder was stopped.
[[nodiscard]] std::uint64_t locks_not_had() noexcept;

struct WithoutWaiting {};

/// Holds a lock to its end, or not when a process that was stopped has it: to be asked at once.
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

  /// The holder before died with it.
  [[nodiscard]] bool inherited() const noexcept { return taken_ == RobustMutex::Taken::inherited; }

 private:
  RobustMutex& mutex_;
  RobustMutex::Taken taken_;
};

}  // namespace hbmwire::emulation
