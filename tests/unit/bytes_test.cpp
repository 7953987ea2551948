// SPDX-License-Identifier: MIT
#include "tests/support/bytes.hpp"

#include <gtest/gtest.h>

// The functions with which tests compare bytes.
namespace hbmwire::test {
namespace {

TEST(Bytes, ComparisonSeesLengthAndEachByte) {
  for (const std::size_t size : {1U, 7U, 8U, 1000U}) {
    const auto bytes = pattern(size, 1);
    EXPECT_EQ(bytes.size(), size);
    EXPECT_TRUE(same_bytes(bytes, pattern(size, 1)));
    EXPECT_FALSE(same_bytes(bytes, pattern(size, 2)));
    EXPECT_FALSE(same_bytes(bytes, pattern(size + 1, 1)));
    for (std::size_t i = 0; i < size; ++i) {
      auto changed = bytes;
      changed[i] ^= std::byte{1};
      EXPECT_FALSE(same_bytes(bytes, changed)) << i;
    }
  }
  EXPECT_TRUE(same_bytes({}, {}));
}

TEST(Bytes, AnOverlayReplacesOnlyItsRange) {
  const auto before = pattern(100, 1);
  const auto other = pattern(100, 2);
  auto all = before;
  overlay(all, 10, 3, 2, 20);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool inside = i >= 10 && i < 30;
    EXPECT_EQ(all[i], inside ? other[i - 10 + 3] : before[i]) << i;
  }
}

}  // namespace
}  // namespace hbmwire::test
