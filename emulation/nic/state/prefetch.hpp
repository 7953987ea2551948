// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::emulation::nic {

/// Has the cache line of `address` fetched to be written, while this thread does something else:
/// what a peer wrote last takes a hop between CPUs each time, one after the other otherwise.
inline void prefetch_to_write(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

/// The same, to be read.
inline void prefetch_to_read(const void* address) { __builtin_prefetch(address); }

}  // namespace hbmwire::emulation::nic
