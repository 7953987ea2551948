// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

namespace hbmwire::emulation {

/// A lock in memory that processes share: who holds it, or 0. Zeroed memory is a free lock.
///
/// A robust mutex of pthreads has the kernel look after a dead holder, and costs two locked
/// instructions and two lists for it each time. Here who waits looks after the holder, so that one
/// locked instruction is left: it is freed by a plain store, and nobody is woken. Those who wait
/// spin, yield and nap.
class LockWord {
 public:
  enum class Taken : std::uint8_t { no, yes, inherited };

  /// Takes it when nobody has it.
  [[nodiscard]] bool try_free() noexcept {
    std::uint64_t free = 0;
    return holder_.compare_exchange_strong(free, this_thread(), std::memory_order_acquire,
                                           std::memory_order_relaxed);
  }

  /// Waits for nobody, and takes the lock of a dead thread over: when it is held, the kernel is
  /// asked about its holder.
  [[nodiscard]] Taken try_lock() noexcept { return try_free() ? Taken::yes : inherit(); }

  /// Waits for a holder that lives, for about `patience_ns`.
  [[nodiscard]] Taken lock_for(std::uint64_t patience_ns) noexcept;

  void unlock() noexcept { holder_.store(0, std::memory_order_release); }

  /// Thread id of the holder, 0: nobody.
  [[nodiscard]] std::int32_t holder() const noexcept {
    return static_cast<std::int32_t>(holder_.load(std::memory_order_relaxed));
  }

  /// Thread id, and above it when it began, since ids come again; kept for the thread's life.
  static std::uint64_t this_thread() noexcept {
    return this_thread_ != 0 ? this_thread_ : ask_for_this_thread();
  }

  /// Whether the thread of such an id runs no instruction of its program any more, by the kernel's
  /// word.
  static bool is_dead(std::uint64_t id) noexcept;

 private:
  static std::uint64_t ask_for_this_thread() noexcept;
  Taken inherit() noexcept;

  // Found without a call: small enough for what the C library keeps free for libraries that are
  // loaded later. All other thread-local variables of a library that has this one lie there, too.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local std::uint64_t this_thread_;

  std::atomic<std::uint64_t> holder_;
};

static_assert(sizeof(LockWord) == sizeof(std::uint64_t));

}  // namespace hbmwire::emulation
