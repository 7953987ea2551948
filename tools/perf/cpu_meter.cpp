// SPDX-License-Identifier: MIT
#include "tools/perf/cpu_meter.hpp"

#include <sys/resource.h>
#include <time.h>

namespace hbmwire::tools::perf {
namespace {

std::int64_t nanoseconds(const timeval& time) noexcept {
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_usec * std::int64_t{1000};
}

}  // namespace

CpuMeter::CpuMeter() noexcept : start_(now()) {}

CpuUse CpuMeter::use() const noexcept {
  const Moment end = now();
  const auto passed = static_cast<double>(end.wall_ns - start_.wall_ns);
  if (passed <= 0) return {};
  return {.user = static_cast<double>(end.user_ns - start_.user_ns) / passed,
          .system = static_cast<double>(end.system_ns - start_.system_ns) / passed};
}

// Neither call can fail with these arguments.
CpuMeter::Moment CpuMeter::now() noexcept {
  timespec wall{};
  rusage usage{};
  ::clock_gettime(CLOCK_MONOTONIC, &wall);
  ::getrusage(RUSAGE_SELF, &usage);
  return {.wall_ns = wall.tv_sec * std::int64_t{1'000'000'000} + wall.tv_nsec,
          .user_ns = nanoseconds(usage.ru_utime),
          .system_ns = nanoseconds(usage.ru_stime)};
}

}  // namespace hbmwire::tools::perf
