// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "tools/perf/result.hpp"

namespace hbmwire::tools::perf {

/// Measures the CPU time of all threads of this process since its construction, by getrusage(2).
class CpuMeter {
 public:
  CpuMeter() noexcept;

  /// CPU time divided by the elapsed time. Zero if no time has elapsed.
  [[nodiscard]] CpuUse use() const noexcept;

 private:
  struct Moment {
    std::int64_t wall_ns = 0;
    std::int64_t user_ns = 0;
    std::int64_t system_ns = 0;
  };

  static Moment now() noexcept;

  Moment start_;
};

}  // namespace hbmwire::tools::perf
