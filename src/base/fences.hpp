// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

namespace hbmwire {

/// A full fence. Thread sanitizers do not support std::atomic_thread_fence(), and warn about it.
inline void full_fence() noexcept { __sync_synchronize(); }

/// Writes before it become visible before writes after it.
inline void release_fence() noexcept {
#ifdef __SANITIZE_THREAD__
  full_fence();
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

/// Reads before it happen before reads after it.
inline void acquire_fence() noexcept {
#ifdef __SANITIZE_THREAD__
  full_fence();
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

}  // namespace hbmwire
