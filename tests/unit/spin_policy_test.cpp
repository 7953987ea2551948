// SPDX-License-Identifier: MIT
#include "endpoint/spin_policy.hpp"

#include <gtest/gtest.h>

namespace hbmwire::detail {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

unsigned polls_of(SpinPolicy& spin_policy, unsigned waits) {
  unsigned polls = 0;
  for (unsigned i = 0; i < waits; ++i) polls += spin_policy.polls() ? 1U : 0U;
  return polls;
}

void sleep_briefly(SpinPolicy& spin_policy, unsigned times) {
  for (unsigned i = 0; i < times; ++i) spin_policy.slept(microseconds(60));
}

TEST(SpinPolicy, PollsFirst) {
  SpinPolicy spin_policy;
  EXPECT_EQ(polls_of(spin_policy, 100), 100U);
}

// After 256 short sleeps in a row it sleeps at once, and polls only in each 64th wait.
TEST(SpinPolicy, SleepsAtOnceWherePollingIsInVainAgainAndAgain) {
  SpinPolicy spin_policy;
  sleep_briefly(spin_policy, 255);
  EXPECT_TRUE(spin_policy.polls()) << "255 sleeps may be chance";
  sleep_briefly(spin_policy, 1);
  EXPECT_EQ(polls_of(spin_policy, 63), 0U);
  EXPECT_TRUE(spin_policy.polls()) << "to find out whether polling is still in vain";
  EXPECT_EQ(polls_of(spin_policy, 640), 10U);
}

TEST(SpinPolicy, PollsAgainAfterOneEventDuringPolling) {
  SpinPolicy spin_policy;
  sleep_briefly(spin_policy, 300);
  EXPECT_EQ(polls_of(spin_policy, 63), 0U);
  spin_policy.came_while_polling();
  EXPECT_EQ(polls_of(spin_policy, 100), 100U);
}

TEST(SpinPolicy, ALateEventChangesNothing) {
  SpinPolicy spin_policy;
  for (int i = 0; i < 1000; ++i) spin_policy.slept(milliseconds(5));
  EXPECT_EQ(polls_of(spin_policy, 100), 100U);
}

}  // namespace
}  // namespace hbmwire::detail
