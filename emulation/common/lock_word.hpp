// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

namespace hbmwire::emulation {

/// A lock in memory that processes share. The word holds the thread that has the lock, or 0. Zeroed
/// memory is a free lock.
///
/// With a robust mutex of pthreads the kernel handles a dead holder, but each use costs two locked
/// instructions and two list operations. Here the waiting thread checks whether the holder is
/// alive. So taking costs one locked instruction, freeing is a plain store, and no thread has to be
/// woken: waiting threads spin, yield and nap.
class LockWord {
 public:
  enum class Taken : std::uint8_t { no, yes, inherited };

  /// Takes the lock if it is free.
  [[nodiscard]] bool take_if_free() noexcept {
    std::uint64_t free = 0;
    return holder_.compare_exchange_strong(free, this_thread(), std::memory_order_acquire,
                                           std::memory_order_relaxed);
  }

  /// Takes the lock without waiting. If it is held, asks the kernel about the holder, and takes
  /// over the lock of a dead thread (`inherited`).
  [[nodiscard]] Taken try_lock() noexcept { return take_if_free() ? Taken::yes : inherit(); }

  /// Waits for a living holder for about `patience_ns`.
  [[nodiscard]] Taken lock_for(std::uint64_t patience_ns) noexcept;

  void unlock() noexcept { holder_.store(0, std::memory_order_release); }

  /// The thread id of the holder; 0: the lock is free.
  [[nodiscard]] std::int32_t holder() const noexcept {
    return static_cast<std::int32_t>(holder_.load(std::memory_order_relaxed));
  }

  /// The thread's id in the low half, and the time when it began in the high half, because ids are
  /// reused. Cached for the thread's life.
  static std::uint64_t this_thread() noexcept {
    return this_thread_ != 0 ? this_thread_ : ask_for_this_thread();
  }

  /// Whether the kernel says that the thread with such an id has ended.
  static bool is_dead(std::uint64_t id) noexcept;

 private:
  static std::uint64_t ask_for_this_thread() noexcept;
  Taken inherit() noexcept;

  // Accessed without a function call. It is small enough for the space that the C library reserves
  // for libraries that are loaded later. All other thread-local variables of such a library lie
  // there too.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local std::uint64_t this_thread_;

  std::atomic<std::uint64_t> holder_;
};

static_assert(sizeof(LockWord) == sizeof(std::uint64_t));

}  // namespace hbmwire::emulation
