// SPDX-License-Identifier: MIT
#include "message/slots.hpp"

#include <gtest/gtest.h>

#include <array>

#include "endpoint/transfer_state.hpp"

namespace hbmwire::detail {
namespace {

TEST(Slots, AClosedTransfersIdIsNotFoundAgain) {
  Slots slots(2);
  std::array<TransferState, 3> transfers;
  const std::uint32_t first = slots.open(transfers[0]);
  const std::uint32_t second = slots.open(transfers[1]);
  EXPECT_TRUE(slots.full());
  EXPECT_EQ(slots.find(first), &transfers[0]);
  EXPECT_EQ(slots.find(second), &transfers[1]);
  slots.close(first);
  EXPECT_EQ(slots.find(first), nullptr);
  const std::uint32_t third = slots.open(transfers[2]);
  EXPECT_NE(third, first);
  EXPECT_EQ(slots.find(first), nullptr);
  EXPECT_EQ(slots.find(third), &transfers[2]);
  for (const std::uint32_t foreign : {0U, 3U, 0xffffU, ~0U, third + 0x10000U})
    EXPECT_EQ(slots.find(foreign), nullptr) << foreign;
  int ended = 0;
  slots.clear([&](TransferState&, std::uint32_t) { ++ended; });
  EXPECT_EQ(ended, 2);
  EXPECT_TRUE(slots.empty());
  EXPECT_EQ(slots.find(third), nullptr);
}

}  // namespace
}  // namespace hbmwire::detail
