// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <poll.h>
#include <time.h>

#include "tools/perf/cpu_meter.hpp"

namespace hbmwire::tools::perf {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// On a machine of any load: used CPU time is counted, and with one thread it does not exceed the
// elapsed time.
TEST(PerfCpuMeter, CountsUsedTime) {
  const double start = cpu_seconds();
  const CpuMeter meter;
  while (cpu_seconds() < start + 0.05) continue;
  const CpuUse use = meter.use();
  EXPECT_GT(use.total(), 0);
  EXPECT_LE(use.total(), 1.05);
}

TEST(PerfCpuMeter, CountsNoSleep) {
  const CpuMeter meter;
  ASSERT_EQ(poll(nullptr, 0, 200), 0);
  EXPECT_LT(meter.use().total(), 0.5);
}

}  // namespace
}  // namespace hbmwire::tools::perf
