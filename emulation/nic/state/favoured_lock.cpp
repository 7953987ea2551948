// SPDX-License-Identifier: MIT
#include "emulation/nic/state/favoured_lock.hpp"

#include <sched.h>

#include <algorithm>
#include <ctime>

#include "emulation/common/fault_step.hpp"
#include "emulation/common/lock_word.hpp"
#include "emulation/common/stopped.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// The state of the former favourite, once it cannot enter the lock any more.
enum class Favourite : std::uint8_t { outside, inside, dead };

/// A lock's former favourite, as the thread that takes the lock from it sees it.
class Ousted {
 public:
  Ousted(std::uint64_t token, Place place, std::uint64_t lock)
      : token_(token),
        lock_(lock),
        mark_(ThreadMarks::of(token)),
        inside_(mark_.inside[static_cast<std::size_t>(place)]) {}

  [[nodiscard]] Favourite look() const {
    const bool outside = inside_.load(std::memory_order_acquire) != lock_;
    // The mark has a new owner: the favourite has ended, or was killed, perhaps inside the lock.
    if (mark_.token.load() != token_) return Favourite::dead;
    return outside ? Favourite::outside : Favourite::inside;
  }

  /// As look(), but asks the kernel whether the thread is alive.
  [[nodiscard]] Favourite ask() const {
    const std::uint64_t thread = mark_.thread.load();
    const Favourite seen = look();
    if (seen != Favourite::inside) return seen;
    // It may have left the lock just before it died: its last store is visible by now.
    return LockWord::is_dead(thread)
               ? look() == Favourite::outside ? Favourite::outside : Favourite::dead
               : Favourite::inside;
  }

  [[nodiscard]] bool stopped() const {
    return is_stopped(static_cast<std::int32_t>(mark_.thread.load()));
  }

 private:
  std::uint64_t token_;
  std::uint64_t lock_;
  ThreadMark& mark_;
  std::atomic<std::uint64_t>& inside_;
};

/// Waits until the favourite has left the lock. Gives up if it is stopped, or after about 10 s.
Favourite wait_until_outside(const Ousted& ousted) {
  // The waits get longer in stages, as in LockWord::lock_for(). 10,000 naps of 1 ms are 10 s.
  constexpr int kSpins = 64;
  constexpr int kYields = 64;
  constexpr long kNapNs = 20'000;
  constexpr long kLongestNapNs = 1'000'000;
  constexpr int kLooks = 10'000;
  Favourite where = ousted.look();
  for (int i = 0; i < kSpins && where == Favourite::inside; ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    where = ousted.look();
  }
  for (int i = 0; i < kYields && where == Favourite::inside; ++i) {
    ::sched_yield();
    where = ousted.look();
  }
  long ns = kNapNs;
  for (int i = 0; i < kLooks && where == Favourite::inside; ++i) {
    where = ousted.ask();
    if (where != Favourite::inside || ousted.stopped()) break;
    const timespec nap{0, ns};
    ::nanosleep(&nap, nullptr);
    ns = std::min(2 * ns, kLongestNapNs);
    where = ousted.look();
  }
  return where;
}

}  // namespace

FavouredLock::Taken FavouredLock::lock(Place place) noexcept {
  return oust(place, word_.lock(), true);
}

FavouredLock::Taken FavouredLock::try_lock(Place place) noexcept {
  return oust(place, word_.try_lock(), false);
}

/// Takes the lock from its favourite, once `word_` is taken (`taken`). A favourite that cannot be
/// waited for keeps the lock; the next caller tries again.
FavouredLock::Taken FavouredLock::oust(Place place, Taken taken, bool waits) noexcept {
  if (taken == Taken::no) return taken;
  const std::uint64_t whose = favoured_.load(std::memory_order_relaxed) & ~kLeaving;
  if (whose == 0) return taken;
  if (favours(OwnMark::token()) && entered(place) == nullptr) {
    // A PassingHold has made this thread the favourite while the thread waited for `word_`. It
    // holds the lock by `word_` until unlock(), which counts the last hold of its streak and makes
    // it the favourite.
    recent_ = streak_of(whose) | (kStreak - 1);
    favoured_.store(0, std::memory_order_release);
    return taken;
  }
  favoured_.store(whose | kLeaving, std::memory_order_release);
  fault_step("ousting");
  fence_all_threads();
  const Ousted ousted(whose, place, ThreadMarks::name_of(this));
  const Favourite where = waits ? wait_until_outside(ousted) : ousted.ask();
  if (where == Favourite::inside) {
    word_.unlock();
    return Taken::no;
  }
  recent_ = 0;
  favoured_.store(0, std::memory_order_release);
  return where == Favourite::dead ? Taken::inherited : taken;
}

void FavouredLock::unlock() noexcept {
  OwnMark::ask();  // only a thread with a mark can become the favourite
  const std::uint64_t token = OwnMark::token();
  const std::uint32_t me = streak_of(token);
  if (recent_ >> kStreakBits != me >> kStreakBits) {
    recent_ = me;
  } else if ((++recent_ & ((1U << kStreakBits) - 1)) >= kStreak && token != OwnMark::kNone &&
             token != OwnMark::kNotAsked) {
    recent_ = me;
    favoured_.store(token, std::memory_order_release);
  }
  word_.unlock();
}

void FavouredLock::unlock_for(std::uint64_t token) noexcept {
  recent_ = streak_of(token);
  favoured_.store(token, std::memory_order_release);
  word_.unlock();
}

void SenderMutex::lock_slowly() noexcept {
  while (lock_.lock(Place::sender) == FavouredLock::Taken::no) {
  }
}

}  // namespace hbmwire::emulation::nic
