// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace hbmwire::tools::perf {

/// The cheapest clock: the CPU's time stamp counter, which runs at the same constant speed on all
/// CPUs of a current machine; without one, the system's clock.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Measures the length of a tick against the system's clock, from its construction until each call.
class TickRate {
 public:
  TickRate() noexcept : since_(std::chrono::steady_clock::now()), ticks_(ticks()) {}

  /// The first call waits until 10 ms have passed, so that the rate is exact to 1 in 100 000.
  [[nodiscard]] double ns_per_tick() const noexcept {
    constexpr auto kLeast = std::chrono::milliseconds(10);
    auto now = std::chrono::steady_clock::now();
    while (now - since_ < kLeast) now = std::chrono::steady_clock::now();
    const auto passed = static_cast<double>(ticks() - ticks_);
    return static_cast<double>(std::chrono::nanoseconds(now - since_).count()) / passed;
  }

  /// A time in ticks.
  [[nodiscard]] std::uint64_t in(std::chrono::nanoseconds time) const noexcept {
    return static_cast<std::uint64_t>(static_cast<double>(time.count()) / ns_per_tick());
  }

 private:
  std::chrono::steady_clock::time_point since_;
  std::uint64_t ticks_;
};

}  // namespace hbmwire::tools::perf
