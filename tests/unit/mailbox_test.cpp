// SPDX-License-Identifier: MIT
#include "message/mailbox.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

namespace hbmwire::detail {
namespace {

TEST(Slots, KnowAnEarlierIdAsSuch) {
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

TEST(UnexpectedPool, GivesNobodyWhatAnotherHas) {
  constexpr std::uint32_t kUnits = 40;
  std::vector<std::byte> memory(kUnits * UnexpectedPool::kUnitBytes);
  UnexpectedPool pool(memory.data(), kUnits);
  std::mt19937 random(1);
  std::map<std::byte*, std::uint32_t> taken;
  std::uint32_t refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto units = static_cast<std::uint32_t>(1 + random() % 9);
    std::byte* const at = random() % 2 == 0 ? pool.take(units) : nullptr;
    if (at != nullptr) {
      const auto next = taken.lower_bound(at);
      ASSERT_GE(at, memory.data());
      ASSERT_LE(at + units * UnexpectedPool::kUnitBytes, memory.data() + memory.size());
      ASSERT_TRUE(next == taken.end() || at + units * UnexpectedPool::kUnitBytes <= next->first);
      if (next != taken.begin()) {
        const auto before = std::prev(next);
        ASSERT_LE(before->first + before->second * UnexpectedPool::kUnitBytes, at);
      }
      taken.emplace(at, units);
    } else if (!taken.empty()) {
      ++refused;
      const auto some =
          std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
      pool.give_back(some->first, some->second);
      taken.erase(some);
    }
  }
  for (const auto& [at, units] : taken) pool.give_back(at, units);
  EXPECT_GT(refused, 0U);
  EXPECT_EQ(pool.take(kUnits + 1), nullptr);
  EXPECT_EQ(pool.take(kUnits), memory.data());
  EXPECT_EQ(pool.take(1), nullptr);
}

TEST(Chain, GivesUpAnyOfItsEntries) {
  std::array<UnexpectedMessage, 3> entries;
  Chain<UnexpectedMessage> chain;
  for (UnexpectedMessage& entry : entries) chain.append(entry);
  const auto same = [&](std::size_t i) {
    return [&, i](const UnexpectedMessage& entry) { return &entry == &entries[i]; };
  };
  EXPECT_EQ(chain.take(same(2)), &entries[2]);
  chain.append(entries[2]);
  EXPECT_EQ(chain.take(same(1)), &entries[1]);
  EXPECT_EQ(chain.take(same(1)), nullptr);
  EXPECT_EQ(chain.take(same(0)), &entries[0]);
  EXPECT_EQ(&chain.take_first(), &entries[2]);
  EXPECT_TRUE(chain.empty());
}

}  // namespace
}  // namespace hbmwire::detail
