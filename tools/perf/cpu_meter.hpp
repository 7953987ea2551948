// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "tools/perf/result.hpp"

namespace hbmwire::tools::perf {

/// CPU time of all threads of this process, getrusage(2), from its making until it is asked.
class CpuMeter {
 public:
  CpuMeter() noexcept;

  /// CPU time since then, by the time that has passed. Zero when none has.
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
