// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

#include "base/fences.hpp"

namespace hbmwire {

/// A pair of fences of which the frequent one costs nothing: a store before light_fence() and a
/// load behind it, in one thread, and a store before heavy_fence() and a load behind it, in
/// another: at least one of the two loads sees the other thread's store. Where the kernel has no
/// membarrier(2) both are full fences.
namespace asymmetric {

namespace detail {
/// Whether heavy_fence() reaches the other threads.
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

/// light_fence() for whoever has light_fence() follow where that is not light, as is told
/// elsewhere.
inline void lightest_fence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// Some microseconds: interrupts each CPU that runs a thread of this process.
void heavy_fence() noexcept;

}  // namespace asymmetric

}  // namespace hbmwire
