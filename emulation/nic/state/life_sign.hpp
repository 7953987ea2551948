// SPDX-License-Identifier: MIT
#pragma once

#include <linux/futex.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace hbmwire::emulation::nic {

/// A word in shared memory that says at a glance that a process lives. A thread of it holds a
/// robust mutex for as long as it runs, in which the kernel enters that the thread has ended, with
/// its process or not. Memory of zeros says nothing.
class LifeSign {
 public:
  // Thread sanitizer takes a mutex that is held for ever for one that all others come behind.
#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__)
  /// Of the calling thread, from now on.
  void give() noexcept {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
    pthread_mutex_lock(&mutex_);
  }

  /// That thread runs. False: it has ended, or the C library keeps its mutexes otherwise, and the
  /// process may live all the same.
  [[nodiscard, gnu::always_inline]] bool is_given() noexcept {
    const auto word = static_cast<std::uint32_t>(
        std::atomic_ref(mutex_.__data.__lock).load(std::memory_order_acquire));
    return (word & FUTEX_TID_MASK) != 0 && (word & FUTEX_OWNER_DIED) == 0;
  }
#else
  void give() noexcept {}

  [[nodiscard]] bool is_given() noexcept { return false; }
#endif

 private:
  pthread_mutex_t mutex_;
};

}  // namespace hbmwire::emulation::nic
