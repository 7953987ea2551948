// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::emulation::nic {

/// Begins to fetch the cache line of `address` for writing, while this thread does other work. A
/// line that a peer wrote last takes a hop between CPUs; without prefetching such hops would follow
/// each other.
inline void prefetch_to_write(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

/// As prefetch_to_write(), for reading.
inline void prefetch_to_read(const void* address) { __builtin_prefetch(address); }

}  // namespace hbmwire::emulation::nic
