// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <set>
#include <vector>

#include "registration/cached_region.hpp"
#include "registration/memo.hpp"
#include "registration/pin.hpp"
#include "registration/pin_arena.hpp"
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
  static void set(Pin& pin, std::uint64_t begin, std::uint64_t end, Access access) {
    pin.begin = begin;
    rest_of(pin).end = end;
    pin.state = Pin::state_of(access, end - begin, 0);
  }

  static Pin& make(PinArena& arena, std::uint64_t begin, std::uint64_t end, Access access) {
    Pin& pin = arena.add();
    set(pin, begin, end, access);
    return pin;
  }

  Pin& pin_of(std::uint64_t begin, std::uint64_t end, Access access = Access::none) {
    return make(pins_, begin, end, access);
  }

  /// In either bucket.
  Pin* found(std::uint64_t address, Access access = Access::none) const {
    Pin* const pin = memo_.find(address, 1, access);
    return pin != nullptr ? pin : memo_.find_away(address, 1, access);
  }

  static constexpr std::uint64_t kFirst = 0x7f12'3456'7000;

  PinArena pins_{nullptr, 0};
  Memo memo_{pins_};
};

TEST_F(MemoTest, FindsByAddressAndChecksTheRest) {
  Pin& pin = pin_of(1000, 2000, Access::remote_read);
  EXPECT_EQ(memo_.find(1500, 10, Access::remote_read), nullptr);
  memo_.remember(1500, pin);
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
  memo_.remember(1500, pin);
  pin.begin = 5000;
  rest_of(pin).end = 6000;
  EXPECT_EQ(memo_.find(1500, 10, Access::none), nullptr);
}

TEST_F(MemoTest, KeepsOneAddressWithEachAccess) {
  Pin& read = pin_of(0, 100, Access::remote_read);
  Pin& write = pin_of(0, 100, Access::remote_write);
  memo_.remember(7, read);
  memo_.remember(7, write);
  EXPECT_EQ(memo_.find(7, 1, Access::remote_read), &read);
  EXPECT_EQ(memo_.find(7, 1, Access::remote_write), &write);
}

/// The address that Memo has this hash of.
std::uint64_t address_of(std::uint64_t hash) {
  constexpr std::uint64_t kMultiplier = 0xd6e8feb86659fd93;
  std::uint64_t inverse = kMultiplier;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kMultiplier * inverse;
  for (int i = 0; i < 2; ++i) {
    hash *= inverse;
    hash ^= hash >> 32U;
  }
  return hash;
}

// Of the hash some bits are kept: others of the same bucket have them, too.
TEST_F(MemoTest, AddressesWithTheSameBitsOfTheHashAreToldApart) {
  constexpr std::uint64_t kHash = 0x1234'5678'9ab0'0000;
  std::vector<Pin*> pins;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::uint64_t address = address_of(kHash + i);
    pins.push_back(&pin_of(address, address + 100));
  }
  for (int round = 0; round < 3; ++round) {
    for (Pin* const pin : pins) {
      memo_.remember(pin->begin, *pin);
      EXPECT_EQ(found(pin->begin), pin);
    }
    // Their first bucket takes one of them, and second ones as many as there are buckets.
    const auto known =
        std::ranges::count_if(pins, [&](Pin* pin) { return found(pin->begin) == pin; });
    EXPECT_GT(known, 10);
    EXPECT_LT(known, 34);
  }
}

// Allocators lay regions out in strides: whatever these are, hardly any is lost, few are away from
// their first bucket, and the table is no larger than it takes.
TEST_F(MemoTest, GrowsAndKnowsThemAllInAnyStride) {
  constexpr std::uint64_t kAddresses = 20'000;
  for (const std::uint64_t factor : {1U, 3U}) {
    for (unsigned shift = 6; shift <= 40; ++shift) {
      const std::uint64_t stride = factor << shift;
      SCOPED_TRACE(stride);
      PinArena arena(nullptr, 0);
      Memo memo(arena);
      std::vector<Pin*> pins;
      for (std::uint64_t i = 0; i < kAddresses; ++i) {
        const std::uint64_t address = kFirst + i * stride;
        pins.push_back(&make(arena, address, address + 64, Access::none));
        memo.remember(address, *pins.back());
      }
      std::size_t away = 0;
      std::size_t lost = 0;
      for (const Pin* const pin : pins) {
        if (memo.find(pin->begin, 64, Access::none) == pin) continue;
        ++away;
        if (memo.find_away(pin->begin, 64, Access::none) != pin) ++lost;
      }
      EXPECT_LT(lost, 4U);
      EXPECT_LT(away, kAddresses / 20);
      EXPECT_LE(memo.slots(), kAddresses * 5 / 2);
      // A quarter larger each time.
      EXPECT_LT(memo.rebuilds(), 25U);
    }
  }
}

TEST_F(MemoTest, AddressesMadeToMeetDoNotMakeItGrow) {
  // Both buckets in common, also in larger tables.
  const auto buckets_of = [](std::uint64_t hash) { return (hash * 0x9e3779b97f4a7c15) >> 50U; };
  constexpr std::uint64_t kHash = 0x1234'5678'0000'0000;
  std::vector<Pin*> pins;
  for (std::uint32_t low = 0; pins.size() < 50; low += 0x9e3779b9) {
    const std::uint64_t hash = kHash + low;
    if (buckets_of(hash) != buckets_of(kHash)) continue;
    const std::uint64_t address = address_of(hash);
    pins.push_back(&pin_of(address, address + 100));
  }
  const std::size_t slots = memo_.slots();
  for (int round = 0; round < 1000; ++round) {
    for (Pin* const pin : pins) {
      if (found(pin->begin) != pin) memo_.remember(pin->begin, *pin);
      ASSERT_EQ(found(pin->begin), pin);
    }
  }
  const auto known =
      std::ranges::count_if(pins, [&](Pin* pin) { return found(pin->begin) == pin; });
  EXPECT_GE(known, 8);
  EXPECT_LE(known, 16);
  EXPECT_EQ(memo_.slots(), slots);
  EXPECT_EQ(memo_.rebuilds(), 0U);
}

/// Whoever comes by the lock each time (a thread that uses two caches in turn) remembers the same
/// again and again.
TEST_F(MemoTest, ToRememberTheSameAgainCostsNothing) {
  std::vector<Pin*> pins;
  const auto address_of = [](std::uint64_t i) { return kFirst + i * 0x1000; };
  for (std::uint64_t i = 0; i < 5000; ++i) {
    pins.push_back(&pin_of(address_of(i), address_of(i + 1)));
    memo_.remember(address_of(i), *pins.back());
  }
  const std::size_t slots = memo_.slots();
  const std::size_t rebuilds = memo_.rebuilds();
  for (int round = 0; round < 100; ++round) {
    for (std::uint64_t i = 0; i < pins.size(); ++i) memo_.remember(address_of(i), *pins[i]);
  }
  EXPECT_EQ(memo_.slots(), slots);
  EXPECT_EQ(memo_.rebuilds(), rebuilds);
}

TEST_F(MemoTest, DoesNotGrowForThoseThatHaveGone) {
  constexpr std::uint64_t kAlive = 100;
  const std::size_t slots = memo_.slots();
  ASSERT_LT(kAlive * 2, slots);
  std::vector<Pin*> pins;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    pins.push_back(&pin_of(i * 4096, (i + 1) * 4096));
    memo_.remember(i * 4096, *pins.back());
    if (i >= kAlive) pins[i - kAlive]->mark(Pin::kDoomed);
    ASSERT_EQ(found(i * 4096), pins[i]);
  }
  EXPECT_EQ(memo_.slots(), slots);
}

// As the cache does it: a pin that was given back is another region's next.
TEST_F(MemoTest, DoesNotGrowForThoseWhosePinsAreUsedAnew) {
  constexpr std::uint64_t kAlive = 100;
  const std::size_t slots = memo_.slots();
  std::vector<Pin*> pins;
  for (std::uint64_t i = 0; i < kAlive; ++i) pins.push_back(&pin_of(0, 0));
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    Pin& pin = *pins[i % kAlive];
    pin.mark(Pin::kDoomed);
    set(pin, i * 4096, (i + 1) * 4096, i % 3 == 0 ? Access::remote_read : Access::none);
    memo_.remember(i * 4096, pin);
    ASSERT_EQ(found(i * 4096, pin.access()), &pin);
  }
  EXPECT_EQ(memo_.slots(), slots);
}

// At first sight a pin tells of the beginning alone.
TEST_F(MemoTest, FindsWhatIsFarInALargeRegion) {
  for (const std::uint64_t size :
       {std::uint64_t{Pin::kMostReach} - 1, std::uint64_t{Pin::kMostReach},
        std::uint64_t{Pin::kMostReach} + 1, std::uint64_t{96} << 30U}) {
    SCOPED_TRACE(size);
    const std::uint64_t begin = (std::uint64_t{1} << 60U) + size * 2;  // as an accelerator's own
    const std::uint64_t end = begin + size;
    Pin& pin = pin_of(begin, end, Access::remote_read);
    const auto found = [&](std::uint64_t address, std::uint64_t length_bytes) {
      memo_.remember(address, pin);
      return memo_.find(address, length_bytes, Access::remote_read) == &pin;
    };
    EXPECT_TRUE(found(begin, size));
    EXPECT_TRUE(found(end - 1, 1));
    EXPECT_TRUE(found(begin + size / 2, size - size / 2));
    EXPECT_FALSE(found(begin, size + 1));
    EXPECT_FALSE(found(begin - 1, 2));
    EXPECT_FALSE(found(begin - 1, size));
    EXPECT_FALSE(found(end - 1, 2));
    EXPECT_FALSE(found(end, 1));
    EXPECT_FALSE(found(end - 1, 0));
    EXPECT_FALSE(found(begin + 1, ~std::uint64_t{0}));
  }
}

TEST_F(MemoTest, NewAddressesTakeThePlacesOfDoomedOnes) {
  Pin& doomed = pin_of(0, 1'000'000);
  for (std::uint64_t i = 0; i < 1000; ++i) memo_.remember(i, doomed);
  doomed.mark(Pin::kDoomed);
  Pin& alive = pin_of(0, 1'000'000);
  for (std::uint64_t i = 0; i < 100; ++i) memo_.remember(i, alive);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(found(i), &alive);
}

TEST(PinArenaTest, APinIsFoundByItsNumberAndItsRegionByThePin) {
  std::vector<CachedRegion> regions(3);
  PinArena arena(nullptr, 0);
  std::vector<Pin*> pins;
  std::set<std::uint32_t> units{0};  // which is no pin's
  for (std::size_t i = 0; i < 20'000; ++i) {
    pins.push_back(&arena.add());
    EXPECT_EQ(rest_of(*pins.back()).region, nullptr);
    rest_of(*pins.back()).region = &regions[i % 3];
    EXPECT_TRUE(units.insert(PinArena::unit_of(*pins.back())).second);
  }
  EXPECT_EQ(arena.size(), pins.size());
  for (std::size_t i = 0; i < pins.size(); ++i) {
    EXPECT_EQ(arena.at(PinArena::unit_of(*pins[i])), pins[i]);
    EXPECT_EQ(rest_of(*pins[i]).region, &regions[i % 3]);
    EXPECT_EQ(leases_of(*pins[i]), 0U);
  }
}

// Whatever bits a caller's access has, also those that no access has.
TEST(PinTest, IsOpenOnlyWhereNothingIsToBeAskedOrNoted) {
  Pin pin;
  for (unsigned of = 0; of <= static_cast<unsigned>(kAllAccess); ++of) {
    const auto access = static_cast<Access>(of);
    for (std::uint32_t marks = 0; marks < 8; ++marks) {
      pin.state = Pin::state_of(access, 4096, marks);
      EXPECT_EQ(pin.access(), access);
      EXPECT_TRUE(pin.covers(0, 4096));
      EXPECT_FALSE(pin.covers(0, 4097));
      for (const std::uint32_t mark : {Pin::kUsed, Pin::kDoomed, Pin::kAsked})
        EXPECT_EQ(pin.has(mark), (marks & mark) != 0);
      for (unsigned other = 0; other < 256; ++other) {
        EXPECT_EQ(pin.is_open(static_cast<Access>(other)), other == of && marks == Pin::kUsed)
            << of << " with " << marks << ", asked for " << other;
      }
    }
  }
}

TEST(PinTest, MarksComeAndGo) {
  Pin pin;
  const auto access = Access::remote_write | Access::local_write;
  pin.state = Pin::state_of(access, 4096, Pin::kAsked);
  pin.mark(Pin::kUsed);
  EXPECT_FALSE(pin.is_open(access));
  pin.unmark(Pin::kAsked);
  EXPECT_TRUE(pin.is_open(access));
  pin.mark(Pin::kDoomed);
  EXPECT_FALSE(pin.is_open(access));
  EXPECT_EQ(pin.access(), access);
}

TEST(PinTest, CountsWhatOthersGiveBack) {
  PinArena arena(nullptr, 0);
  Pin& pin = arena.add();
  for (int i = 0; i < 3; ++i) pin.add();
  EXPECT_EQ(leases_of(pin), 3U);
  rest_of(pin).given_back.fetch_add(2);
  EXPECT_EQ(leases_of(pin), 1U);
  pin.take_away();
  EXPECT_EQ(leases_of(pin), 0U);
}

}  // namespace
}  // namespace hbmwire::detail
