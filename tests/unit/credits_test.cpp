// SPDX-License-Identifier: MIT
#include "message/credits.hpp"

#include <gtest/gtest.h>

namespace hbmwire::detail {
namespace {

/// Credits of an end that uses no more places than it has.
class CreditsTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kPlaces = 4;

  CreditsTest() { credits_.lend(kPlaces); }

  void take_all() {
    while (credits_.take()) continue;
  }

  Receives receives_;
  Credits credits_{receives_, kPlaces};
};

TEST_F(CreditsTest, AreSpentAndGivenBack) {
  EXPECT_FALSE(credits_.may_send());
  credits_.connect(2, 2);
  credits_.spend();
  EXPECT_TRUE(credits_.may_send());
  credits_.spend();
  EXPECT_FALSE(credits_.may_send());
  EXPECT_TRUE(credits_.add(2));
  EXPECT_TRUE(credits_.may_send());
}

TEST_F(CreditsTest, AreNeverMoreThanThePeerHasPlaces) {
  credits_.connect(2, 3);
  EXPECT_TRUE(credits_.add(1));
  EXPECT_FALSE(credits_.add(1));
}

TEST_F(CreditsTest, LimitThePeerUntilItIsTold) {
  for (std::uint32_t i = 0; i < kPlaces; ++i) EXPECT_TRUE(credits_.take());
  EXPECT_FALSE(credits_.take());
  credits_.free_place();
  // The peer has not learned of the free place yet, and may not rely on it.
  EXPECT_FALSE(credits_.take());
  EXPECT_EQ(credits_.to_tell(), 1);
  credits_.told(1, false);
  EXPECT_EQ(credits_.to_tell(), 0);
  EXPECT_TRUE(credits_.take());
}

TEST_F(CreditsTest, AreDueWhenMorePlacesAreFreeThanThePeerHasCredits) {
  EXPECT_TRUE(credits_.take());
  EXPECT_TRUE(credits_.take());
  credits_.free_place();
  credits_.free_place();
  EXPECT_FALSE(credits_.are_due());
  EXPECT_TRUE(credits_.take());
  EXPECT_TRUE(credits_.are_due());
  credits_.told(credits_.to_tell(), true);
  EXPECT_FALSE(credits_.are_due());
}

TEST_F(CreditsTest, AreDueAtOnceWhereThePeerHasNoCredit) {
  take_all();
  EXPECT_FALSE(credits_.are_due());
  credits_.free_place();
  EXPECT_TRUE(credits_.are_due());
}

/// The peer has only one receive for messages that tell of credits and nothing else.
TEST_F(CreditsTest, AreDueAgainOnceThePeerHasSeenTheLastOnes) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(credits_.take());
  for (int i = 0; i < 3; ++i) credits_.free_place();
  ASSERT_TRUE(credits_.are_due());
  credits_.told(3, true);
  // The peer had one credit left, and may have used it before it saw the new ones.
  EXPECT_TRUE(credits_.take());
  for (int i = 0; i < 4; ++i) credits_.free_place();
  EXPECT_FALSE(credits_.are_due());
  EXPECT_TRUE(credits_.take());
  EXPECT_TRUE(credits_.are_due());
}

}  // namespace
}  // namespace hbmwire::detail
