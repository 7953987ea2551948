// SPDX-License-Identifier: MIT
#include "message/credits.hpp"

#include <gtest/gtest.h>

namespace hbmwire::detail {
namespace {

TEST(Credits, AreSpentAndGivenBack) {
  Credits credits(8);
  EXPECT_FALSE(credits.may_send());
  credits.connect(2);
  credits.spend();
  EXPECT_TRUE(credits.may_send());
  credits.spend();
  EXPECT_FALSE(credits.may_send());
  EXPECT_TRUE(credits.add(2));
  EXPECT_TRUE(credits.may_send());
}

TEST(Credits, AreNeverMoreThanThePeerHasPlaces) {
  Credits credits(8);
  credits.connect(2);
  credits.spend();
  EXPECT_TRUE(credits.add(1));
  EXPECT_FALSE(credits.add(1));
}

TEST(Credits, LimitThePeerUntilItIsTold) {
  Credits credits(4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(credits.take());
  EXPECT_FALSE(credits.take());
  credits.free_place();
  // The peer does not know of it yet, and may not count on it.
  EXPECT_FALSE(credits.take());
  EXPECT_EQ(credits.to_tell(), 1);
  credits.told(1);
  EXPECT_EQ(credits.to_tell(), 0);
  EXPECT_TRUE(credits.take());
}

TEST(Credits, AreDueWhenHalfOfThePlacesAreFreeAgain) {
  Credits credits(4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(credits.take());
  credits.free_place();
  EXPECT_FALSE(credits.are_due());
  credits.free_place();
  EXPECT_TRUE(credits.are_due());
  credits.told(credits.to_tell());
  EXPECT_FALSE(credits.are_due());
}

}  // namespace
}  // namespace hbmwire::detail
