// SPDX-License-Identifier: MIT
#include "hbmwire/deadline.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <tuple>

namespace hbmwire {
namespace {

using namespace std::chrono_literals;
using Clock = Deadline::Clock;

// poll_timeout_ms() returns at most this.
constexpr int kHourMs = 3'600'000;

// The least and the greatest value of each unit. Most of them exceed the clock's range.
template <class Duration>
class DeadlineOf : public ::testing::Test {};

using Durations =
    ::testing::Types<std::chrono::nanoseconds, std::chrono::microseconds, std::chrono::milliseconds,
                     std::chrono::seconds, std::chrono::minutes, std::chrono::hours,
                     std::chrono::years, std::chrono::duration<double>,
                     std::chrono::duration<float, std::milli>, std::chrono::duration<int>,
                     std::chrono::duration<std::uint64_t, std::nano>>;
TYPED_TEST_SUITE(DeadlineOf, Durations);

TYPED_TEST(DeadlineOf, GreatestIsNeverAndLeastHasPassed) {
  const Deadline never = Deadline::after(TypeParam::max());
  EXPECT_FALSE(never.passed());
  EXPECT_EQ(never.poll_timeout_ms(), kHourMs);
  const Deadline now = Deadline::after(TypeParam::zero());
  EXPECT_TRUE(now.passed());
  EXPECT_EQ(now.poll_timeout_ms(), 0);
  if (TypeParam::min() < TypeParam::zero()) {
    const Deadline past = Deadline::after(TypeParam::min());
    EXPECT_TRUE(past.passed());
    EXPECT_EQ(past.poll_timeout_ms(), 0);
  }
}

TEST(Deadline, LiesWhereItIsAskedFor) {
  const auto before = Clock::now();
  const Deadline moment = Deadline::after(1ns);
  EXPECT_LE(moment.poll_timeout_ms(), 1);
  while (!moment.passed()) {
    ASSERT_LT(Clock::now() - before, 5s);
  }
  EXPECT_TRUE(Deadline::after(-1ns).passed());
  EXPECT_EQ(Deadline::after(-1h).poll_timeout_ms(), 0);
  const int minute_ms = Deadline::after(1min).poll_timeout_ms();
  EXPECT_GT(minute_ms, 50'000);
  EXPECT_LE(minute_ms, 60'000);
  const Deadline year = Deadline::after(std::chrono::years(1));
  EXPECT_FALSE(year.passed());
  EXPECT_EQ(year.poll_timeout_ms(), kHourMs);
}

TEST(Deadline, AnyPointInTimeOverflowsNowhere) {
  EXPECT_FALSE(Deadline(Clock::time_point::max()).passed());
  EXPECT_EQ(Deadline(Clock::time_point::max()).poll_timeout_ms(), kHourMs);
  EXPECT_EQ(Deadline::never().poll_timeout_ms(), kHourMs);
  EXPECT_TRUE(Deadline(Clock::time_point::min()).passed());
  EXPECT_EQ(Deadline(Clock::time_point::min()).poll_timeout_ms(), 0);
  EXPECT_TRUE(Deadline(Clock::time_point()).passed());
}

TEST(Deadline, LaterStopsAtTheEnds) {
  const auto now = Clock::now();
  EXPECT_EQ(Deadline::later(now, 5s), now + 5s);
  EXPECT_EQ(Deadline::later(now, -5s), now - 5s);
  EXPECT_EQ(Deadline::later(now, std::chrono::nanoseconds::max()), Clock::time_point::max());
  EXPECT_EQ(Deadline::later(Clock::time_point::max(), 1ns), Clock::time_point::max());
  EXPECT_EQ(Deadline::later(Clock::time_point::min(), -1ns), Clock::time_point::min());
  EXPECT_EQ(Deadline::later(Clock::time_point::max(), std::chrono::nanoseconds::min()),
            Clock::time_point(-1ns));
}

}  // namespace
}  // namespace hbmwire
