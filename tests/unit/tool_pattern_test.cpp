// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "tools/common/pattern.hpp"

namespace hbmwire::tools {
namespace {

using Bytes = std::vector<std::byte>;

Bytes made(const Pattern& pattern, std::size_t size, std::uint64_t offset = 0) {
  Bytes bytes(size);
  generate(pattern, offset, bytes);
  return bytes;
}

std::size_t equal_bytes(const Bytes& a, const Bytes& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] == b[i] ? 1U : 0U;
  return count;
}

constexpr std::size_t kSize = 40003;  // three trailing bytes

TEST(ToolPattern, EveryByteDiffersBetweenIterations) {
  const Bytes first = made({.seed = 7, .iteration = 1}, kSize);
  for (const std::uint32_t iteration : {2U, 3U, 100U, 255U}) {
    EXPECT_EQ(equal_bytes(first, made({.seed = 7, .iteration = iteration}, kSize)), 0U)
        << iteration;
  }
}

// After 256 iterations the bytes repeat, but in another order.
TEST(ToolPattern, DiffersAfterAllBytesWereUsed) {
  const Bytes first = made({.seed = 7, .iteration = 1}, kSize);
  EXPECT_LT(equal_bytes(first, made({.seed = 7, .iteration = 257}, kSize)), kSize / 100);
}

TEST(ToolPattern, WordsDifferBetweenOffsets) {
  const Bytes bytes = made({.seed = 7, .iteration = 1}, 400000);
  std::set<std::uint32_t> seen;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i, 4);
    EXPECT_TRUE(seen.insert(word).second) << i;
  }
}

TEST(ToolPattern, DependsOnSeedAndTag) {
  const Bytes one = made({.seed = 7, .iteration = 1, .tag = Tag::send}, kSize);
  // Random bytes are equal with a probability of 1 in 256.
  EXPECT_LT(equal_bytes(one, made({.seed = 8, .iteration = 1, .tag = Tag::send}, kSize)),
            kSize / 100);
  EXPECT_LT(equal_bytes(one, made({.seed = 7, .iteration = 1, .tag = Tag::write}, kSize)),
            kSize / 100);
}

TEST(ToolPattern, IsTheSameInChunks) {
  for (const bool doubled : {false, true}) {
    const Pattern pattern{.seed = 9, .iteration = 5, .tag = Tag::read, .doubled = doubled};
    const Bytes whole = made(pattern, kSize);
    for (std::size_t at = 0; at < kSize; at += 4096) {
      const Bytes part = made(pattern, std::min<std::size_t>(4096, kSize - at), at);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<long>(at)))
          << at;
    }
  }
}

TEST(ToolPattern, GoesOnBeyondTheFirst16GiB) {
  const Pattern pattern{.seed = 9, .iteration = 5};
  const std::uint64_t far = std::uint64_t{1} << 34;  // the words' 32-bit index wraps around here
  EXPECT_LT(equal_bytes(made(pattern, kSize), made(pattern, kSize, far)), kSize / 100);
}

TEST(ToolPattern, PoisonIsNeverExpected) {
  for (const bool doubled : {false, true}) {
    const Pattern pattern{.seed = 3, .iteration = 2, .doubled = doubled};
    Bytes poison(kSize);
    generate_poison(pattern, 0, poison);
    EXPECT_EQ(equal_bytes(poison, made(pattern, kSize)), 0U);
  }
}

TEST(ToolPattern, DoubledEqualsTheServersResult) {
  for (const std::size_t size : {1U, 2U, 3U, 4U, 5U, 4095U, 4096U}) {
    Bytes bytes = made({.seed = 3, .iteration = 2}, size);
    double_integers(bytes);
    EXPECT_EQ(bytes, made({.seed = 3, .iteration = 2, .doubled = true}, size)) << size;
  }
}

TEST(ToolPattern, DoublesModuloTheWidth) {
  Bytes bytes{std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
              std::byte{0xff}, std::byte{0x80}, std::byte{0x81}};
  double_integers(bytes);
  EXPECT_EQ(bytes, (Bytes{std::byte{0xfe}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                          std::byte{0x00}, std::byte{0x02}}));
}

TEST(ToolComparison, FindsTheFirstWrongByteAndCountsThem) {
  const Bytes expected = made({.seed = 1, .iteration = 1}, kSize);
  Bytes got = expected;
  EXPECT_EQ(compare(expected, got, 0), (Comparison{.bytes = kSize}));
  got[kSize - 1] ^= std::byte{1};
  got[100] ^= std::byte{1};
  const Comparison found = compare(expected, got, 8192);
  EXPECT_EQ(found.wrong_bytes, 2U);
  EXPECT_EQ(found.offset_bytes, 8292U);
  EXPECT_EQ(found.expected, std::to_integer<std::uint8_t>(expected[100]));
  EXPECT_EQ(found.got, found.expected ^ 1);
}

TEST(ToolComparison, FindsAWrongByteAtEveryOffset) {
  const Bytes expected = made({.seed = 1, .iteration = 1}, 67);
  for (std::size_t at = 0; at < expected.size(); ++at) {
    Bytes got = expected;
    got[at] = ~got[at];
    EXPECT_EQ(compare(expected, got, 0).offset_bytes, at);
    EXPECT_EQ(compare(expected, got, 0).wrong_bytes, 1U);
  }
}

TEST(ToolComparison, AppendKeepsTheFirst) {
  Comparison all{.bytes = 10};
  all.append({.bytes = 10, .wrong_bytes = 1, .offset_bytes = 15, .expected = 1, .got = 2});
  all.append({.bytes = 10, .wrong_bytes = 3, .offset_bytes = 25, .expected = 3, .got = 4});
  EXPECT_EQ(all, (Comparison{
                     .bytes = 30, .wrong_bytes = 4, .offset_bytes = 15, .expected = 1, .got = 2}));
}

}  // namespace
}  // namespace hbmwire::tools
