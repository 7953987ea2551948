// SPDX-License-Identifier: MIT
#include "wire/codec.hpp"

#include <gtest/gtest.h>

#include <span>
#include <utility>
#include <vector>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/nic.hpp"

namespace hbmwire {
namespace {

using wire::Reader;

TEST(Reader, FailsForGoodAfterTheFirstShortRead) {
  const std::vector<std::byte> bytes(3);
  Reader in(bytes);
  EXPECT_EQ(in.integer<std::uint32_t>(), 0U);
  EXPECT_EQ(in.integer<std::uint8_t>(), 0U);
  EXPECT_FALSE(in.complete());
}

TEST(Reader, TakesNoMoreCountedBytesThanItsLimit) {
  wire::Writer out;
  out.counted(std::vector<std::byte>(5, std::byte{7}));
  const std::vector<std::byte> bytes = out.take();
  for (const std::size_t limit : {4U, 5U, 6U}) {
    Reader in(bytes);
    EXPECT_EQ(in.counted(limit), std::vector<std::byte>(limit < 5 ? 0 : 5, std::byte{7}));
    EXPECT_EQ(in.complete(), limit >= 5);
  }
  // The length, and two of the five bytes.
  Reader cut(std::span<const std::byte>(bytes).first(6));
  EXPECT_TRUE(cut.counted(1024).empty());
  EXPECT_FALSE(cut.complete());
}

TEST(RemoteMemory, HasNoSliceThatLeavesIt) {
  const RemoteMemory memory{~std::uint64_t{0} - 100, 100, 7};
  EXPECT_EQ(*memory.slice(0, 100), memory);
  EXPECT_EQ(*memory.slice(99, 1), (RemoteMemory{~std::uint64_t{0} - 1, 1, 7}));
  EXPECT_TRUE(memory.slice(100, 0));
  for (const auto& [offset, length] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {0, 101}, {1, 100}, {100, 1}, {101, 0}, {~0ULL, 1}, {1, ~0ULL}, {~0ULL, ~0ULL}}) {
    const auto slice = memory.slice(offset, length);
    ASSERT_FALSE(slice) << offset << " " << length;
    EXPECT_EQ(slice.error().code, Errc::invalid_argument);
  }
}

}  // namespace
}  // namespace hbmwire
