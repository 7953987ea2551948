// SPDX-License-Identifier: MIT
#include "endpoint/patience.hpp"

#include <gtest/gtest.h>

namespace hbmwire::detail {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

unsigned polls_of(Patience& patience, unsigned waits) {
  unsigned polls = 0;
  for (unsigned i = 0; i < waits; ++i) polls += patience.polls() ? 1U : 0U;
  return polls;
}

void sleep_briefly(Patience& patience, unsigned times) {
  for (unsigned i = 0; i < times; ++i) patience.slept(microseconds(60));
}

TEST(Patience, PollsFirst) {
  Patience patience;
  EXPECT_EQ(polls_of(patience, 100), 100U);
}

TEST(Patience, SleepsAtOnceWherePollingIsInVainAgainAndAgain) {
  Patience patience;
  sleep_briefly(patience, 255);
  EXPECT_TRUE(patience.polls()) << "by chance";
  sleep_briefly(patience, 1);
  EXPECT_EQ(polls_of(patience, 63), 0U);
  EXPECT_TRUE(patience.polls()) << "to find out whether it is so still";
  EXPECT_EQ(polls_of(patience, 640), 10U);
}

TEST(Patience, PollsAgainOnceThatWasEnough) {
  Patience patience;
  sleep_briefly(patience, 300);
  EXPECT_EQ(polls_of(patience, 63), 0U);
  patience.came_while_polling();
  EXPECT_EQ(polls_of(patience, 100), 100U);
}

TEST(Patience, WhatCameOnlyAfterLongSaysNothing) {
  Patience patience;
  for (int i = 0; i < 1000; ++i) patience.slept(milliseconds(5));
  EXPECT_EQ(polls_of(patience, 100), 100U);
}

}  // namespace
}  // namespace hbmwire::detail
