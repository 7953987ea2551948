// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

namespace hbmwire {

/// std::atomic_thread_fence(), of which thread sanitizers know nothing, and say so.
inline void full_fence() noexcept { __sync_synchronize(); }

/// Writes before it are seen before writes behind it.
inline void release_fence() noexcept {
#ifdef __SANITIZE_THREAD__
  full_fence();
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

/// Reads before it happen before reads behind it.
inline void acquire_fence() noexcept {
#ifdef __SANITIZE_THREAD__
  full_fence();
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

}  // namespace hbmwire
