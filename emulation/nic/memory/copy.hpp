// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>

/// Ways to copy ranges that do not overlap. All stores are visible to other processors before
/// any store that follows the call.
namespace hbmwire::emulation::nic {

/// Between two stores that another process may watch. Not std::atomic_thread_fence, which thread
/// sanitizer lacks.
inline void keep_store_order() {
  std::atomic_signal_fence(std::memory_order_release);
#if defined(__aarch64__)
  asm volatile("dmb ishst" ::: "memory");  // x86 keeps stores in order by itself
#endif
}

/// Up to here a range is small: both ends of it fit the cache next to a core.
inline constexpr std::size_t kSmall = 16384;

/// For small ranges of at least 8 bytes. The last 8 are stored last.
void copy_small(void* to, const void* from, std::size_t bytes);

/// For what is in the caches, or is to be.
void copy_through_caches(void* to, const void* from, std::size_t bytes);

}  // namespace hbmwire::emulation::nic
