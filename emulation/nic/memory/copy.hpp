// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>

/// Copies ranges that do not overlap. All stores of a copy are visible to other processors before
/// any store that follows the call.
namespace hbmwire::emulation::nic {

/// Keeps two stores in order that another process may watch. std::atomic_thread_fence is not used
/// because ThreadSanitizer does not support it.
inline void keep_store_order() {
  std::atomic_signal_fence(std::memory_order_release);
#if defined(__aarch64__)
  asm volatile("dmb ishst" ::: "memory");  // x86 keeps stores in order by itself
#endif
}

/// The greatest length of a small range: both its source and its target fit into the cache next to
/// a core.
inline constexpr std::size_t kSmall = 16384;

/// Copies a small range of at least 8 bytes. The last 8 bytes are stored last.
void copy_small(void* to, const void* from, std::size_t bytes);

/// Copies a range that is in the caches, or should be afterwards.
void copy_through_caches(void* to, const void* from, std::size_t bytes);

}  // namespace hbmwire::emulation::nic
