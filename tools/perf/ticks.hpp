// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace hbmwire::tools::perf {

/// The cheapest clock that there is: the CPU's time stamp counter where it has one, which runs at
/// one speed on every CPU of today, else the system's.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// What a tick is: measured between its making and each question, against the system's clock.
class TickRate {
 public:
  TickRate() noexcept : since_(std::chrono::steady_clock::now()), ticks_(ticks()) {}

  /// Waits at first until 10 ms are over, so that the rate is right to one in 100 000.
  [[nodiscard]] double ns_per_tick() const noexcept {
    constexpr auto kLeast = std::chrono::milliseconds(10);
    auto now = std::chrono::steady_clock::now();
    while (now - since_ < kLeast) now = std::chrono::steady_clock::now();
    const auto passed = static_cast<double>(ticks() - ticks_);
    return static_cast<double>(std::chrono::nanoseconds(now - since_).count()) / passed;
  }

  [[nodiscard]] std::uint64_t in(std::chrono::nanoseconds time) const noexcept {
    return static_cast<std::uint64_t>(static_cast<double>(time.count()) / ns_per_tick());
  }

 private:
  std::chrono::steady_clock::time_point since_;
  std::uint64_t ticks_;
};

}  // namespace hbmwire::tools::perf
