// SPDX-License-Identifier: MIT
#include "emulation/common/lock_word.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "emulation/common/thread_status.hpp"

namespace hbmwire::emulation {
namespace {

std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

void nap(std::uint64_t ns) {
  const timespec time{0, static_cast<long>(ns)};
  ::nanosleep(&time, nullptr);
}

}  // namespace

// GCC ignores the TLS model of the declaration in the file with the definition.
[[gnu::tls_model("initial-exec")]] constinit thread_local std::uint64_t LockWord::this_thread_ = 0;

bool LockWord::is_dead(std::uint64_t id) noexcept {
  const ThreadStatus status = thread_status(static_cast<std::int32_t>(id));
  if (status.is_gone || status.state == 'Z' || status.state == 'X') return true;
  // Another thread has reused the id if the start times differ. One of them may be unknown, if the
  // process was short of descriptors.
  const auto started = static_cast<std::uint32_t>(id >> 32U);
  return started != 0 && status.state != 0 && status.started != started;
}

std::uint64_t LockWord::ask_for_this_thread() noexcept {
  // The thread of a forked child has another id.
  static const int kRegistered = pthread_atfork(nullptr, nullptr, [] { this_thread_ = 0; });
  static_cast<void>(kRegistered);
  const auto id = static_cast<std::uint32_t>(::gettid());
  this_thread_ = std::uint64_t{thread_status(static_cast<std::int32_t>(id)).started} << 32U | id;
  return this_thread_;
}

LockWord::Taken LockWord::inherit() noexcept {
  std::uint64_t from = holder_.load(std::memory_order_relaxed);
  if (from == 0) return take_if_free() ? Taken::yes : Taken::no;
  if (!is_dead(from)) return Taken::no;
  const bool taken = holder_.compare_exchange_strong(from, this_thread(), std::memory_order_acquire,
                                                     std::memory_order_relaxed);
  return taken ? Taken::inherited : Taken::no;
}

LockWord::Taken LockWord::lock_for(std::uint64_t patience_ns) noexcept {
  // The waits get longer in stages. Most locks are held for less than a hop between CPUs takes. If
  // not, the holder may need this CPU. If it still holds the lock, it is copying something large or
  // is dead.
  constexpr int kSpins = 64;
  constexpr int kYields = 64;
  constexpr std::uint64_t kNapNs = 20'000;
  constexpr std::uint64_t kLongestNapNs = 1'000'000;
  const auto try_idle = [this] {  // reads first, which does not take the line from another CPU
    return holder_.load(std::memory_order_relaxed) == 0 && take_if_free();
  };
  for (int i = 0; i < kSpins; ++i) {
    if (try_idle()) return Taken::yes;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  for (int i = 0; i < kYields; ++i) {
    ::sched_yield();
    if (try_idle()) return Taken::yes;
  }
  const std::uint64_t end = monotonic_ns() + patience_ns;
  for (std::uint64_t ns = kNapNs;; ns = std::min(2 * ns, kLongestNapNs)) {
    const Taken taken = try_lock();
    if (taken != Taken::no || monotonic_ns() >= end) return taken;
    nap(ns);
  }
}

}  // namespace hbmwire::emulation
