// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <deque>
#include <list>
#include <random>
#include <vector>

#include "registration/memo.hpp"
#include "registration/pin.hpp"
#include "registration/region_table.hpp"

// What the registration cache is made of, without NICs.
namespace hbmwire::detail {
namespace {

struct Entry {
  AddressRange range;
  Access access = Access::none;
};

bool covers(const Entry& entry, AddressRange range) {
  return entry.range.begin <= range.begin && range.end <= entry.range.end;
}

bool overlap(const Entry& entry, AddressRange range) {
  return entry.range.begin < range.end && range.begin < entry.range.end;
}

TEST(RegionTable, FindsWhatALookThroughAllOfThemFinds) {
  std::mt19937 random(1);
  std::list<Entry> all;
  RegionTable<Entry> table;
  int found = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t begin = random() % 1000;
    const AddressRange range{begin, begin + 1 + random() % 40};
    const auto access = static_cast<Access>(random() % (static_cast<unsigned>(kAllAccess) + 1));
    const Entry* expected = nullptr;
    for (const Entry& entry : all) {
      if (entry.access == access && covers(entry, range)) expected = &entry;
    }
    ASSERT_EQ(table.find(range, access), expected);
    found += expected != nullptr ? 1 : 0;
    switch (random() % 3) {
      case 0: {  // what overlaps goes, and it comes
        std::vector<Entry*> gone;
        table.overlapping(range, access, [&](Entry& entry) {
          gone.push_back(&entry);
          table.erase(entry);
        });
        const auto erased = std::erase_if(all, [&](const Entry& entry) {
          return entry.access == access && overlap(entry, range);
        });
        ASSERT_EQ(gone.size(), erased);
        table.insert(all.emplace_back(Entry{range, access}));
        break;
      }
      case 1: {  // whatever the access
        std::size_t gone = 0;
        if (random() % 4 != 0) break;
        table.overlapping(range, [&](Entry& entry) {
          ++gone;
          table.erase(entry);
        });
        ASSERT_EQ(gone,
                  std::erase_if(all, [&](const Entry& entry) { return overlap(entry, range); }));
        break;
      }
      default:
        break;
    }
  }
  EXPECT_GT(found, 500) << "the test has found nothing to compare";
}

TEST(RegionTable, TakesTheLastAddress) {
  RegionTable<Entry> table;
  Entry last{{~std::uint64_t{0} - 4096, ~std::uint64_t{0}}, Access::remote_read};
  table.insert(last);
  EXPECT_EQ(table.find({~std::uint64_t{0} - 1, ~std::uint64_t{0}}, Access::remote_read), &last);
  EXPECT_EQ(table.find({0, 1}, Access::remote_read), nullptr);
}

class MemoTest : public testing::Test {
 protected:
  Pin& pin_of(std::uint64_t begin, std::uint64_t end, Access access = Access::none) {
    Pin& pin = pins_.emplace_back();
    pin.begin = begin;
    pin.end = end;
    pin.access = access;
    pin.doomed = false;
    return pin;
  }

  Memo memo_;
  std::deque<Pin> pins_;
};

TEST_F(MemoTest, FindsByAddressAndChecksTheRest) {
  Pin& pin = pin_of(1000, 2000, Access::remote_read);
  EXPECT_EQ(memo_.find(1500, 10, Access::remote_read), nullptr);
  memo_.remember(1500, &pin);
  EXPECT_EQ(memo_.find(1500, 10, Access::remote_read), &pin);
  EXPECT_EQ(memo_.find(1500, 500, Access::remote_read), &pin);
  EXPECT_EQ(memo_.find(1500, 501, Access::remote_read), nullptr);
  EXPECT_EQ(memo_.find(1500, 0, Access::remote_read), nullptr);
  EXPECT_EQ(memo_.find(1500, ~std::uint64_t{0}, Access::remote_read), nullptr);
  EXPECT_EQ(memo_.find(1500, 10, Access::remote_write), nullptr);
  EXPECT_EQ(memo_.find(1501, 10, Access::remote_read), nullptr);
}

TEST_F(MemoTest, APinThatIsAnotherRegionsNowIsNotFound) {
  Pin& pin = pin_of(1000, 2000);
  memo_.remember(1500, &pin);
  pin.begin = 5000;
  pin.end = 6000;
  EXPECT_EQ(memo_.find(1500, 10, Access::none), nullptr);
}

TEST_F(MemoTest, KeepsOneAddressWithEachAccess) {
  Pin& read = pin_of(0, 100, Access::remote_read);
  Pin& write = pin_of(0, 100, Access::remote_write);
  memo_.remember(7, &read);
  memo_.remember(7, &write);
  EXPECT_EQ(memo_.find(7, 1, Access::remote_read), &read);
  EXPECT_EQ(memo_.find(7, 1, Access::remote_write), &write);
}

TEST_F(MemoTest, GrowsAndForgetsFewOfThose) {
  constexpr std::uint64_t kAddresses = 100'000;
  for (std::uint64_t i = 0; i < kAddresses; ++i) {
    Pin& pin = pin_of(i * 4096, (i + 1) * 4096);
    memo_.remember(i * 4096, &pin);
  }
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i < kAddresses; ++i)
    found += memo_.find(i * 4096, 4096, Access::none) == &pins_[i] ? 1U : 0U;
  EXPECT_GT(found, kAddresses * 9 / 10);
}

TEST_F(MemoTest, NewAddressesTakeThePlacesOfDoomedOnes) {
  Pin& doomed = pin_of(0, 1'000'000);
  for (std::uint64_t i = 0; i < 1000; ++i) memo_.remember(i, &doomed);
  doomed.doomed = true;
  Pin& alive = pin_of(0, 1'000'000);
  for (std::uint64_t i = 0; i < 100; ++i) memo_.remember(i, &alive);
  int found = 0;
  for (std::uint64_t i = 0; i < 100; ++i) found += memo_.find(i, 1, Access::none) == &alive ? 1 : 0;
  EXPECT_GT(found, 95);
}

TEST(PinTest, CountsWhatOthersGiveBack) {
  Pin pin;
  for (int i = 0; i < 3; ++i) pin.add();
  EXPECT_EQ(pin.in_use(), 3U);
  pin.elsewhere.fetch_add(2);
  EXPECT_EQ(pin.in_use(), 1U);
  pin.take_away();
  EXPECT_EQ(pin.in_use(), 0U);
}

}  // namespace
}  // namespace hbmwire::detail
