// SPDX-License-Identifier: MIT
#pragma once

#include <pthread.h>

#include <cerrno>
#include <cstdint>

namespace hbmwire::emulation::nic {

/// A mutex in memory that processes share and that survives the death of its holder: whoever locks
/// next inherits it. What it guards must therefore be harmless when half done; each user says why
/// it is.
class RobustMutex {
 public:
  /// Before any process can reach it, or with Header::allocation held; memory of zeros is a mutex
  /// that is not made.
  void make_once() noexcept {
    if (is_made()) return;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
    made_ = 1;  // last: who dies before leaves it to the next
  }

  [[nodiscard]] bool is_made() const noexcept { return made_ != 0; }

  void lock() noexcept {
    if (pthread_mutex_lock(&mutex_) == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
  }

  bool try_lock() noexcept {
    const int error = pthread_mutex_trylock(&mutex_);
    if (error == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
    return error == 0 || error == EOWNERDEAD;
  }

  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_;
  std::uint32_t made_;
};

}  // namespace hbmwire::emulation::nic
