// SPDX-License-Identifier: MIT
#pragma once

#include <linux/futex.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace hbmwire::emulation::nic {

/// Says with one load from shared memory that a process is alive. A thread of the process holds a
/// robust mutex as long as it runs. When the thread ends, alone or with its process, the kernel
/// marks the mutex as abandoned. Zeroed memory means "not known".
class LifeSign {
 public:
  // ThreadSanitizer would take a mutex that is held for ever for one that orders all others.
#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__)
  /// Starts the sign, which lasts as long as the calling thread.
  void give() noexcept {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
    pthread_mutex_lock(&mutex_);
  }

  /// Returns true while that thread runs. False: the thread has ended, or the C library lays its
  /// mutexes out differently. In both cases the process may still be alive.
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
