// SPDX-License-Identifier: MIT
#pragma once

#include <pthread.h>

#include <cerrno>
#include <cstdint>

namespace hbmwire::emulation::nic {

/// A mutex in memory that processes share and that survives the death of its holder: whoever locks
/// next inherits it. What it guards must therefore be harmless when half done; each user says why
/// it is.
///
/// It survives that its holder is stopped (SIGSTOP, a debugger), too: nobody waits for such a one.
/// Locked by Hold below, never by std::lock_guard, which has no way to say so.
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

  /// Whether anybody has it, at a glance.
  [[nodiscard]] bool is_taken() const noexcept {
    return __atomic_load_n(&mutex_.__data.__lock, __ATOMIC_RELAXED) != 0;
  }

  [[nodiscard]] bool is_made() const noexcept { return made_ != 0; }

  enum class Taken : std::uint8_t { no, yes, inherited };

  /// Waits for a holder that runs. `no`: it was stopped, or has not moved for 10 s.
  [[nodiscard]] Taken lock() noexcept {
    const int error = pthread_mutex_trylock(&mutex_);
    return error == 0 ? Taken::yes : lock_slowly(error);
  }

  /// Waits for nobody.
  [[nodiscard]] Taken try_lock() noexcept { return result_of(pthread_mutex_trylock(&mutex_)); }

  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }

 private:
  Taken result_of(int error) noexcept;
  Taken lock_slowly(int error) noexcept;

  pthread_mutex_t mutex_;
  std::uint32_t made_;
};

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

}  // namespace hbmwire::emulation::nic
