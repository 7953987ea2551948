// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

namespace hbmwire::tools {

/// Measures the time since its construction.
class Stopwatch {
 public:
  [[nodiscard]] std::uint64_t nanoseconds() const noexcept {
    const std::chrono::nanoseconds passed = Clock::now() - start_;
    return static_cast<std::uint64_t>(passed.count());
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace hbmwire::tools
