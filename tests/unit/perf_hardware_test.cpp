// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "hbmwire/nic.hpp"

#include "tools/common/hardware.hpp"

namespace hbmwire::tools {
namespace {

TEST(PerfMemcpy, IsMeasuredOfAnySize) {
  for (const std::uint64_t size : {1ULL, 8ULL, 4096ULL, 1ULL << 20, 8ULL << 20}) {
    const double rate = memcpy_bytes_per_second(size, 4096);
    EXPECT_TRUE(std::isfinite(rate));
    EXPECT_GT(rate, 1e6) << size;  // a thousandth of any current machine's rate
  }
  EXPECT_EQ(memcpy_bytes_per_second(0, 4096), 0);
}

TEST(PerfWay, AMachineWithoutTheNicHasNoLimits) {
  const auto context = Context::create({.memory = {MemoryType::host}});
  ASSERT_TRUE(context);
  NicInfo nic;
  nic.name = "none0";
  const Way way = way_between(*context, {}, nic, {});
  EXPECT_TRUE(way.limits.empty());
  EXPECT_TRUE(way.distance.empty());
}

}  // namespace
}  // namespace hbmwire::tools
