// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

#include "base/fences.hpp"

namespace hbmwire {

/// A pair of fences, of which the frequent one costs nothing. One thread stores, calls
/// light_fence() and loads. Another thread stores, calls heavy_fence() and loads. At least one of
/// the two loads then sees the other thread's store. If the kernel has no membarrier(2), both
/// are full fences.
namespace asymmetric {

namespace detail {
/// Whether heavy_fence() interrupts the other threads. If so, light_fence() may be a mere fence of
/// the compiler.
extern const bool kReachesOthers;

using hbmwire::full_fence;
}  // namespace detail

/// Whether light_fence() costs nothing.
[[nodiscard]] inline bool is_light() noexcept { return detail::kReachesOthers; }

inline void light_fence() noexcept {
  if (detail::kReachesOthers) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    detail::full_fence();
  }
}

/// Always costs nothing, because it is a fence for the compiler alone. It may replace light_fence()
/// only on a path that also calls light_fence() if is_light() is false.
inline void lightest_fence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// Takes some microseconds: it interrupts each CPU that runs a thread of this process.
void heavy_fence() noexcept;

}  // namespace asymmetric

}  // namespace hbmwire
