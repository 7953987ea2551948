// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

#include "emulation/common/robust_mutex.hpp"
#include "emulation/nic/state/thread_mark.hpp"

namespace hbmwire::emulation::nic {

/// A RobustMutex that favours a thread which takes it again and again. The favourite takes it by a
/// plain store into its own mark, without a locked instruction, until another thread wants it
/// (emulation/docs/adr/0022). Zeroed memory is a free lock without a favourite.
class FavouredLock {
 public:
  using Taken = RobustMutex::Taken;

  /// Whether the lock favours the calling thread, which has `token`.
  [[nodiscard]] bool favours(std::uint64_t token) const noexcept {
    return favoured_.load(std::memory_order_acquire) == token;
  }

  /// Enters the lock as its favourite. `mark` (may be null) and `token` are the calling thread's.
  /// Returns false if the lock does not favour the thread, or the thread is in another lock of the
  /// same place.
  [[nodiscard, gnu::always_inline]] bool enter(ThreadMark* mark, std::uint64_t token,
                                               Place place) noexcept {
    if (!favours(token)) return false;
    auto& inside = mark->inside[static_cast<std::size_t>(place)];
    if (inside.load(std::memory_order_relaxed) != 0) [[unlikely]]
      return false;  // in a signal handler, or holding another lock of this place
    inside.store(ThreadMarks::name_of(this), std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs with fence_all_threads()
    if (favours(token)) [[likely]]
      return true;
    leave(inside);
    return false;
  }

  /// Enters the lock as its favourite. Returns the calling thread's entry in its mark, for leave(),
  /// or null if the lock was not entered.
  [[nodiscard, gnu::always_inline]] std::atomic<std::uint64_t>* enter(Place place) noexcept {
    ThreadMark* const mark = OwnMark::get();
    if (!enter(mark, OwnMark::token(), place)) return nullptr;
    return &mark->inside[static_cast<std::size_t>(place)];
  }

  static void leave(std::atomic<std::uint64_t>& entered) noexcept {
    entered.store(0, std::memory_order_release);
  }

  /// Takes the lock after enter() has failed. Waits for a holder that runs. `no`: the holder was
  /// stopped, or has not moved for 10 s.
  [[nodiscard]] Taken lock(Place place) noexcept;

  /// As lock(), without waiting.
  [[nodiscard]] Taken try_lock(Place place) noexcept;

  /// Unlocks after lock() or try_lock(). A thread that has held the lock kStreak times in a row
  /// becomes its favourite.
  void unlock() noexcept;

  /// The favourite's token. 0: there is no favourite, or another thread is taking the lock from it.
  [[nodiscard]] std::uint64_t favourite() const noexcept {
    const std::uint64_t whose = favoured_.load(std::memory_order_relaxed);
    return (whose & kLeaving) == 0 ? whose : 0;
  }

  /// Unlocks, and makes the thread of this process that has `token` the favourite again. For a
  /// thread that takes the lock seldom.
  void unlock_for(std::uint64_t token) noexcept;

  /// The calling thread's entry in its mark, if it has entered this lock there; else null.
  [[nodiscard]] std::atomic<std::uint64_t>* entered(Place place) const noexcept {
    ThreadMark* const mark = OwnMark::get();
    if (mark == nullptr) return nullptr;
    auto& inside = mark->inside[static_cast<std::size_t>(place)];
    return inside.load(std::memory_order_relaxed) == ThreadMarks::name_of(this) ? &inside : nullptr;
  }

  /// Whether taking the lock might have to wait. A quick look, without a guarantee.
  [[nodiscard]] bool may_be_taken() const noexcept {
    const std::uint64_t whose = favoured_.load(std::memory_order_relaxed);
    return word_.is_taken() || (whose != 0 && whose != OwnMark::token());
  }

 private:
  Taken oust(Place place, Taken taken, bool waits) noexcept;

  static constexpr std::uint64_t kLeaving = 1ULL << 63U;  // no token has this bit
  static constexpr std::uint32_t kStreakBits = 10;
  static constexpr std::uint32_t kStreak = 512;  // holds in a row that make a favourite

  /// `recent_` of a thread that has held the lock once.
  static constexpr std::uint32_t streak_of(std::uint64_t token) noexcept {
    return static_cast<std::uint32_t>(token) << kStreakBits;
  }

  RobustMutex word_;
  std::atomic<std::uint64_t> favoured_;  // a token, with kLeaving while another thread takes the
                                         // lock; written, as `recent_`, with `word_` held
  std::uint32_t recent_;                 // bits of the last holder's token, and its holds in a row
};

/// Holds a FavouredLock to the end of a scope, as Hold does for a RobustMutex.
class [[nodiscard]] FavouredHold {
 public:
  [[gnu::always_inline]] FavouredHold(FavouredLock& lock, Place place) noexcept
      : lock_(lock), entered_(lock.enter(place)) {
    if (entered_ == nullptr) [[unlikely]]
      taken_ = lock.lock(place);
  }

  FavouredHold(FavouredLock& lock, Place place, WithoutWaiting) noexcept
      : lock_(lock), entered_(lock.enter(place)) {
    if (entered_ == nullptr) taken_ = lock.try_lock(place);
  }

  FavouredHold(const FavouredHold&) = delete;
  FavouredHold& operator=(const FavouredHold&) = delete;
  FavouredHold(FavouredHold&&) = delete;
  FavouredHold& operator=(FavouredHold&&) = delete;

  [[gnu::always_inline]] ~FavouredHold() {
    if (entered_ != nullptr) [[likely]] {
      FavouredLock::leave(*entered_);
    } else if (taken_ != FavouredLock::Taken::no) {
      lock_.unlock();
    }
  }

  [[nodiscard, gnu::always_inline]] bool held() const noexcept {
    return entered_ != nullptr || taken_ != FavouredLock::Taken::no;
  }

  /// The last holder died with the lock held, or may have.
  [[nodiscard, gnu::always_inline]] bool inherited() const noexcept {
    return entered_ == nullptr && taken_ == FavouredLock::Taken::inherited;
  }

 private:
  FavouredLock& lock_;
  std::atomic<std::uint64_t>* entered_;
  FavouredLock::Taken taken_ = FavouredLock::Taken::no;
};

/// Holds a lock without waiting for it, for a thread that takes it seldom. The destructor makes the
/// former favourite the favourite again, which would otherwise have to take the lock
/// FavouredLock::kStreak times first. Use it only for a lock that threads of one process share.
class [[nodiscard]] PassingHold {
 public:
  PassingHold(FavouredLock& lock, Place place) noexcept
      : lock_(lock), favourite_(lock.favourite()), entered_(lock.enter(place)) {
    if (entered_ == nullptr) taken_ = lock.try_lock(place);
  }

  PassingHold(const PassingHold&) = delete;
  PassingHold& operator=(const PassingHold&) = delete;
  PassingHold(PassingHold&&) = delete;
  PassingHold& operator=(PassingHold&&) = delete;

  ~PassingHold() {
    if (entered_ != nullptr) {
      FavouredLock::leave(*entered_);
    } else if (taken_ == FavouredLock::Taken::yes && favourite_ != 0) {
      lock_.unlock_for(favourite_);
    } else if (taken_ != FavouredLock::Taken::no) {
      lock_.unlock();
    }
  }

  [[nodiscard]] bool held() const noexcept {
    return entered_ != nullptr || taken_ != FavouredLock::Taken::no;
  }

 private:
  FavouredLock& lock_;
  std::uint64_t favourite_;
  std::atomic<std::uint64_t>* entered_;
  FavouredLock::Taken taken_ = FavouredLock::Taken::no;
};

/// Leaves, at the end of a scope, a lock that the calling thread has entered in its mark.
class [[nodiscard]] MarkedHold {
 public:
  [[gnu::always_inline]] MarkedHold(ThreadMark& mark, Place place) noexcept
      : mark_(mark), place_(place) {}

  MarkedHold(const MarkedHold&) = delete;
  MarkedHold& operator=(const MarkedHold&) = delete;
  MarkedHold(MarkedHold&&) = delete;
  MarkedHold& operator=(MarkedHold&&) = delete;

  [[gnu::always_inline]] ~MarkedHold() {
    FavouredLock::leave(mark_.inside[static_cast<std::size_t>(place_)]);
  }

 private:
  ThreadMark& mark_;
  Place place_;
};

/// A sender's mutex. Only threads of one process share it, so it waits for its holder without
/// limit, as std::mutex does.
class SenderMutex {
 public:
  SenderMutex() = default;

  void lock() noexcept {
    if (lock_.enter(Place::sender) == nullptr) lock_slowly();
  }

  [[nodiscard]] bool try_lock() noexcept {
    return lock_.enter(Place::sender) != nullptr ||
           lock_.try_lock(Place::sender) != FavouredLock::Taken::no;
  }

  void unlock() noexcept {
    if (auto* const entered = lock_.entered(Place::sender); entered != nullptr) {
      FavouredLock::leave(*entered);
    } else {
      lock_.unlock();
    }
  }

  /// For callers that enter the lock by their mark alone.
  [[nodiscard]] FavouredLock& favoured() noexcept { return lock_; }

 private:
  void lock_slowly() noexcept;

  FavouredLock lock_{};
};

}  // namespace hbmwire::emulation::nic
