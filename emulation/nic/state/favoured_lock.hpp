// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

#include "emulation/common/robust_mutex.hpp"
#include "emulation/nic/state/thread_mark.hpp"

namespace hbmwire::emulation::nic {

/// A RobustMutex that favours the thread which takes it again and again: that one takes it by a
/// plain store into its own mark, and no locked instruction, until another one wants it
/// (emulation/docs/adr/0022). Zeroed memory is a free lock that favours nobody.
class FavouredLock {
 public:
  using Taken = RobustMutex::Taken;

  /// Whether it favours the calling thread, of which `token` is the token.
  [[nodiscard]] bool favours(std::uint64_t token) const noexcept {
    return favoured_.load(std::memory_order_acquire) == token;
  }

  /// The calling thread, of which `mark` (or null) and `token` are, has it by favour. False: it
  /// has not.
  [[nodiscard, gnu::always_inline]] bool enter(ThreadMark* mark, std::uint64_t token,
                                               Place place) noexcept {
    if (!favours(token)) return false;
    auto& inside = mark->inside[static_cast<std::size_t>(place)];
    if (inside.load(std::memory_order_relaxed) != 0) [[unlikely]]
      return false;  // a handler of a signal, or one sender's lock within another's
    inside.store(ThreadMarks::name_of(this), std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the others' half is fence_all_threads()
    if (favours(token)) [[likely]]
      return true;
    leave(inside);
    return false;
  }

  /// Where the calling thread has entered this lock in its mark: it has it, by favour. Null: it has
  /// not.
  [[nodiscard, gnu::always_inline]] std::atomic<std::uint64_t>* enter(Place place) noexcept {
    ThreadMark* const mark = OwnMark::get();
    if (!enter(mark, OwnMark::token(), place)) return nullptr;
    return &mark->inside[static_cast<std::size_t>(place)];
  }

  static void leave(std::atomic<std::uint64_t>& entered) noexcept {
    entered.store(0, std::memory_order_release);
  }

  /// Waits for a holder that runs. `no`: it was stopped, or has not moved for 10 s. For who could
  /// not enter(), as what follows.
  [[nodiscard]] Taken lock(Place place) noexcept;

  /// Waits for nobody.
  [[nodiscard]] Taken try_lock(Place place) noexcept;

  void unlock() noexcept;

  /// The token of whom it favours; 0: nobody, or somebody is being crossed out.
  [[nodiscard]] std::uint64_t favourite() const noexcept {
    const std::uint64_t whose = favoured_.load(std::memory_order_relaxed);
    return (whose & kLeaving) == 0 ? whose : 0;
  }

  /// As unlock(), for who comes seldom: it favours `token`, a thread of this process, behind it.
  void unlock_for(std::uint64_t token) noexcept;

  /// Whether the calling thread has entered it.
  [[nodiscard]] std::atomic<std::uint64_t>* entered(Place place) const noexcept {
    ThreadMark* const mark = OwnMark::get();
    if (mark == nullptr) return nullptr;
    auto& inside = mark->inside[static_cast<std::size_t>(place)];
    return inside.load(std::memory_order_relaxed) == ThreadMarks::name_of(this) ? &inside : nullptr;
  }

  /// Whether it might have to be waited for, at a glance.
  [[nodiscard]] bool may_be_taken() const noexcept {
    const std::uint64_t whose = favoured_.load(std::memory_order_relaxed);
    return word_.is_taken() || (whose != 0 && whose != OwnMark::token());
  }

 private:
  Taken oust(Place place, Taken taken, bool waits) noexcept;

  static constexpr std::uint64_t kLeaving = 1ULL << 63U;
  static constexpr std::uint32_t kStreakBits = 10;
  static constexpr std::uint32_t kStreak = 512;

  /// `recent_` of who has had it once.
  static constexpr std::uint32_t streak_of(std::uint64_t token) noexcept {
    return static_cast<std::uint32_t>(token) << kStreakBits;
  }

  RobustMutex word_;
  std::atomic<std::uint64_t> favoured_;  // a token, and kLeaving when another one wants the lock;
                                         // written with `word_` held, as what follows
  std::uint32_t recent_;                 // some bits of who had it last, and how often in a row
};

/// As Hold.
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

  /// The holder before died with it, or may have.
  [[nodiscard, gnu::always_inline]] bool inherited() const noexcept {
    return entered_ == nullptr && taken_ == FavouredLock::Taken::inherited;
  }

 private:
  FavouredLock& lock_;
  std::atomic<std::uint64_t>* entered_;
  FavouredLock::Taken taken_ = FavouredLock::Taken::no;
};

/// A hold by who comes seldom and waits for nobody: whom the lock favoured it favours again behind
/// it, who would else have to take it some hundred times first. For locks of threads of one
/// process.
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

/// Leaves a lock that the calling thread has entered.
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

/// A sender's mutex, which threads of one process share: as a std::mutex it waits for whoever has
/// it.
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

  /// To be had by a mark alone.
  [[nodiscard]] FavouredLock& favoured() noexcept { return lock_; }

 private:
  void lock_slowly() noexcept;

  FavouredLock lock_{};
};

}  // namespace hbmwire::emulation::nic
