// SPDX-License-Identifier: MIT
#include "connect/lane_places.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace hbmwire::detail {
namespace {

// lane_places(UP, PEERS): the NICs of an endpoint's lanes, by whether each NIC is up, and by the
// NICs of the peer's lanes.
using Places = std::vector<std::uint8_t>;

TEST(LanePlaces, AreThoseOfTheNicsThatAreUpInTheirOrder) {
  EXPECT_EQ(lane_places({true}, {}), Places({0}));
  EXPECT_EQ(lane_places({true, true, true}, {}), Places({0, 1, 2}));
  EXPECT_EQ(lane_places({false, true, true}, {}), Places({1, 2}));
  EXPECT_EQ(lane_places({true, false, true}, {}), Places({0, 2}));
}

TEST(LanePlaces, AreFourAtMost) {
  const std::vector<bool> up(6, true);
  EXPECT_EQ(lane_places(up, {}), Places({0, 1, 2, 3}));
  EXPECT_EQ(lane_places(up, Places{5, 4}), Places({5, 4, 0, 1}));
}

TEST(LanePlaces, AllNicsAreUsedWhereNoneIsUp) {
  EXPECT_EQ(lane_places({false, false}, {}), Places({0, 1}));
  EXPECT_EQ(lane_places({false, false}, Places{1}), Places({1, 0}));
}

TEST(LanePlaces, FollowThePeersPlacesWhereTheirNicsAreUp) {
  EXPECT_EQ(lane_places({true, true, true}, Places{1, 2}), Places({1, 2, 0}));
  EXPECT_EQ(lane_places({true, true}, Places{1}), Places({1, 0}));
}

TEST(LanePlaces, AMissingNicIsReplacedFirstByOneThatThePeerDoesNotUse) {
  EXPECT_EQ(lane_places({false, true, true, true}, Places{0, 1, 3}), Places({2, 1, 3}));
  EXPECT_EQ(lane_places({true, true}, Places{7, 1}), Places({0, 1}));
}

TEST(LanePlaces, AMissingNicIsReplacedSecondByTheNicOfTheLastLanes) {
  EXPECT_EQ(lane_places({false, true, true}, Places{0, 1, 2}), Places({2, 1}));
  EXPECT_EQ(lane_places({false, true}, Places{0, 1}), Places({1}));
}

/// The peer may claim places that are equal or do not exist.
TEST(LanePlaces, TakeNoNicTwice) {
  EXPECT_EQ(lane_places({true, true}, Places{1, 1, 1, 1}), Places({1, 0}));
  EXPECT_EQ(lane_places({true}, Places{200, 0, 0}), Places({0}));
}

}  // namespace
}  // namespace hbmwire::detail
