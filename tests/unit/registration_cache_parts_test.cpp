// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <set>
#include <vector>

#include "hbmwire/memory_domain.hpp"

#include "registration/address_cache.hpp"
#include "registration/cached_region.hpp"
#include "registration/reference_arena.hpp"
#include "registration/region_table.hpp"
#include "registration/registration_reference.hpp"

// The parts of the registration cache, without NICs.
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

TEST(RegionTable, FindsTheSameAsALinearSearch) {
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
      case 0: {  // adds a range; overlapping ones are removed
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
      case 1: {  // removes overlapping ranges, whatever their access is
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
  static void set(RegistrationReference& reference, std::uint64_t begin, std::uint64_t end,
                  Access access) {
    reference.begin = begin;
    rest_of(reference).end = end;
    reference.state = RegistrationReference::state_of(access, end - begin, 0);
  }

  static RegistrationReference& make(ReferenceArena& arena, std::uint64_t begin, std::uint64_t end,
                                     Access access) {
    RegistrationReference& reference = arena.add();
    set(reference, begin, end, access);
    return reference;
  }

  RegistrationReference& reference_of(std::uint64_t begin, std::uint64_t end,
                                      Access access = Access::none) {
    return make(pins_, begin, end, access);
  }

  /// Searches both buckets.
  RegistrationReference* found(std::uint64_t address, Access access = Access::none) const {
    RegistrationReference* const reference = memo_.find(address, 1, access);
    return reference != nullptr ? reference : memo_.find_away(address, 1, access);
  }

  static constexpr std::uint64_t kFirst = 0x7f12'3456'7000;

  ReferenceArena pins_{nullptr, 0};
  AddressCache memo_{pins_};
};

TEST_F(MemoTest, FindsAnEntryByItsAddressAndChecksItsOtherFields) {
  RegistrationReference& reference = reference_of(1000, 2000, Access::remote_read);
  EXPECT_EQ(memo_.find(1500, 10, Access::remote_read), nullptr);
  memo_.remember(1500, reference);
  EXPECT_EQ(memo_.find(1500, 10, Access::remote_read), &reference);
  EXPECT_EQ(memo_.find(1500, 500, Access::remote_read), &reference);
  EXPECT_EQ(memo_.find(1500, 501, Access::remote_read), nullptr);
  EXPECT_EQ(memo_.find(1500, 0, Access::remote_read), nullptr);
  EXPECT_EQ(memo_.find(1500, ~std::uint64_t{0}, Access::remote_read), nullptr);
  EXPECT_EQ(memo_.find(1500, 10, Access::remote_write), nullptr);
  EXPECT_EQ(memo_.find(1501, 10, Access::remote_read), nullptr);
}

TEST_F(MemoTest, APinThatIsAnotherRegionsNowIsNotFound) {
  RegistrationReference& reference = reference_of(1000, 2000);
  memo_.remember(1500, reference);
  reference.begin = 5000;
  rest_of(reference).end = 6000;
  EXPECT_EQ(memo_.find(1500, 10, Access::none), nullptr);
}

TEST_F(MemoTest, KeepsOneAddressWithEachAccess) {
  RegistrationReference& read = reference_of(0, 100, Access::remote_read);
  RegistrationReference& write = reference_of(0, 100, Access::remote_write);
  memo_.remember(7, read);
  memo_.remember(7, write);
  EXPECT_EQ(memo_.find(7, 1, Access::remote_read), &read);
  EXPECT_EQ(memo_.find(7, 1, Access::remote_write), &write);
}

/// The address that has this hash in AddressCache.
std::uint64_t address_of(std::uint64_t hash) {
  constexpr std::uint64_t kMultiplier = 0xd6e8feb86659fd93;
  std::uint64_t inverse = kMultiplier;
  // Newton's iteration: each step doubles the number of right bits.
  for (int i = 0; i < 6; ++i) inverse *= 2 - kMultiplier * inverse;
  // The hash mixes and multiplies twice.
  for (int i = 0; i < 2; ++i) {
    hash *= inverse;
    hash ^= hash >> 32U;
  }
  return hash;
}

// Only some bits of the hash are stored: other addresses of the same bucket share them.
TEST_F(MemoTest, AddressesWithTheSameBitsOfTheHashAreToldApart) {
  constexpr std::uint64_t kHash = 0x1234'5678'9ab0'0000;
  std::vector<RegistrationReference*> references;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::uint64_t address = address_of(kHash + i);
    references.push_back(&reference_of(address, address + 100));
  }
  for (int round = 0; round < 3; ++round) {
    for (RegistrationReference* const reference : references) {
      memo_.remember(reference->begin, *reference);
      EXPECT_EQ(found(reference->begin), reference);
    }
    // Their first bucket takes one of them, and their second buckets take one each.
    const auto known = std::ranges::count_if(references, [&](RegistrationReference* reference) {
      return found(reference->begin) == reference;
    });
    EXPECT_GT(known, 10);
    EXPECT_LT(known, 34);
  }
}

// Allocators place regions in strides. For any stride, hardly any region is lost, few are outside
// their first bucket, and the table is no larger than necessary.
TEST_F(MemoTest, GrowsAndKnowsThemAllInAnyStride) {
  constexpr std::uint64_t kAddresses = 20'000;
  for (const std::uint64_t factor : {1U, 3U}) {
    for (unsigned shift = 6; shift <= 40; ++shift) {
      const std::uint64_t stride = factor << shift;
      SCOPED_TRACE(stride);
      ReferenceArena arena(nullptr, 0);
      AddressCache addresses(arena);
      std::vector<RegistrationReference*> references;
      for (std::uint64_t i = 0; i < kAddresses; ++i) {
        const std::uint64_t address = kFirst + i * stride;
        references.push_back(&make(arena, address, address + 64, Access::none));
        addresses.remember(address, *references.back());
      }
      std::size_t away = 0;
      std::size_t lost = 0;
      for (const RegistrationReference* const reference : references) {
        if (addresses.find(reference->begin, 64, Access::none) == reference) continue;
        ++away;
        if (addresses.find_away(reference->begin, 64, Access::none) != reference) ++lost;
      }
      EXPECT_LT(lost, 4U);
      EXPECT_LT(away, kAddresses / 20);
      EXPECT_LE(addresses.slots(), kAddresses * 5 / 2);
      // It grows by a quarter each time.
      EXPECT_LT(addresses.rebuilds(), 25U);
    }
  }
}

TEST_F(MemoTest, AddressesWithEqualHashesDoNotMakeItGrow) {
  // The addresses share both buckets, also in larger tables.
  const auto buckets_of = [](std::uint64_t hash) { return (hash * 0x9e3779b97f4a7c15) >> 50U; };
  constexpr std::uint64_t kHash = 0x1234'5678'0000'0000;
  std::vector<RegistrationReference*> references;
  for (std::uint32_t low = 0; references.size() < 50; low += 0x9e3779b9) {
    const std::uint64_t hash = kHash + low;
    if (buckets_of(hash) != buckets_of(kHash)) continue;
    const std::uint64_t address = address_of(hash);
    references.push_back(&reference_of(address, address + 100));
  }
  const std::size_t slots = memo_.slots();
  for (int round = 0; round < 1000; ++round) {
    for (RegistrationReference* const reference : references) {
      if (found(reference->begin) != reference) memo_.remember(reference->begin, *reference);
      ASSERT_EQ(found(reference->begin), reference);
    }
  }
  const auto known = std::ranges::count_if(references, [&](RegistrationReference* reference) {
    return found(reference->begin) == reference;
  });
  EXPECT_GE(known, 8);
  EXPECT_LE(known, 16);
  EXPECT_EQ(memo_.slots(), slots);
  EXPECT_EQ(memo_.rebuilds(), 0U);
}

/// A thread that always takes the slow path with the lock (by using two caches in turn) remembers
/// the same regions over and over.
TEST_F(MemoTest, RememberingAnEntryAgainCostsNothing) {
  std::vector<RegistrationReference*> references;
  const auto address_of = [](std::uint64_t i) { return kFirst + i * 0x1000; };
  for (std::uint64_t i = 0; i < 5000; ++i) {
    references.push_back(&reference_of(address_of(i), address_of(i + 1)));
    memo_.remember(address_of(i), *references.back());
  }
  const std::size_t slots = memo_.slots();
  const std::size_t rebuilds = memo_.rebuilds();
  for (int round = 0; round < 100; ++round) {
    for (std::uint64_t i = 0; i < references.size(); ++i)
      memo_.remember(address_of(i), *references[i]);
  }
  EXPECT_EQ(memo_.slots(), slots);
  EXPECT_EQ(memo_.rebuilds(), rebuilds);
}

TEST_F(MemoTest, EntriesOfReleasedRegionsDoNotMakeItGrow) {
  constexpr std::uint64_t kAlive = 100;
  const std::size_t slots = memo_.slots();
  ASSERT_LT(kAlive * 2, slots);
  std::vector<RegistrationReference*> references;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    references.push_back(&reference_of(i * 4096, (i + 1) * 4096));
    memo_.remember(i * 4096, *references.back());
    if (i >= kAlive) references[i - kAlive]->mark(RegistrationReference::kForgotten);
    ASSERT_EQ(found(i * 4096), references[i]);
  }
  EXPECT_EQ(memo_.slots(), slots);
}

// The cache does this: a released reference is reused for another region.
TEST_F(MemoTest, EntriesOfReusedPinsDoNotMakeItGrow) {
  constexpr std::uint64_t kAlive = 100;
  const std::size_t slots = memo_.slots();
  std::vector<RegistrationReference*> references;
  for (std::uint64_t i = 0; i < kAlive; ++i) references.push_back(&reference_of(0, 0));
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    RegistrationReference& reference = *references[i % kAlive];
    reference.mark(RegistrationReference::kForgotten);
    set(reference, i * 4096, (i + 1) * 4096, i % 3 == 0 ? Access::remote_read : Access::none);
    memo_.remember(i * 4096, reference);
    ASSERT_EQ(found(i * 4096, reference.access()), &reference);
  }
  EXPECT_EQ(memo_.slots(), slots);
}

// The state of a reference has the size of its region only up to kMostReach. The sizes here are
// around that limit, and far larger.
TEST_F(MemoTest, FindsAddressesFarIntoALargeRegion) {
  for (const std::uint64_t size :
       {std::uint64_t{RegistrationReference::kMostReach} - 1,
        std::uint64_t{RegistrationReference::kMostReach},
        std::uint64_t{RegistrationReference::kMostReach} + 1, std::uint64_t{96} << 30U}) {
    SCOPED_TRACE(size);
    // Like the addresses of an accelerator.
    const std::uint64_t begin = (std::uint64_t{1} << 60U) + size * 2;
    const std::uint64_t end = begin + size;
    RegistrationReference& reference = reference_of(begin, end, Access::remote_read);
    const auto found = [&](std::uint64_t address, std::uint64_t length_bytes) {
      memo_.remember(address, reference);
      return memo_.find(address, length_bytes, Access::remote_read) == &reference;
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
  RegistrationReference& forgotten = reference_of(0, 1'000'000);
  for (std::uint64_t i = 0; i < 1000; ++i) memo_.remember(i, forgotten);
  forgotten.mark(RegistrationReference::kForgotten);
  RegistrationReference& alive = reference_of(0, 1'000'000);
  for (std::uint64_t i = 0; i < 100; ++i) memo_.remember(i, alive);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(found(i), &alive);
}

TEST(PinArenaTest, APinIsFoundByItsNumberAndItsRegionByThePin) {
  std::vector<CachedRegion> regions(3);
  ReferenceArena arena(nullptr, 0);
  std::vector<RegistrationReference*> references;
  std::set<std::uint32_t> units{0};  // 0 belongs to no reference
  for (std::size_t i = 0; i < 20'000; ++i) {
    references.push_back(&arena.add());
    EXPECT_EQ(rest_of(*references.back()).region, nullptr);
    rest_of(*references.back()).region = &regions[i % 3];
    EXPECT_TRUE(units.insert(ReferenceArena::unit_of(*references.back())).second);
  }
  EXPECT_EQ(arena.size(), references.size());
  for (std::size_t i = 0; i < references.size(); ++i) {
    EXPECT_EQ(arena.at(ReferenceArena::unit_of(*references[i])), references[i]);
    EXPECT_EQ(rest_of(*references[i]).region, &regions[i % 3]);
    EXPECT_EQ(leases_of(*references[i]), 0U);
  }
}

// `bits` are all values that a caller's access can have, valid or not.
TEST(PinTest, IsOpenOnlyWithoutChecksOrMarks) {
  RegistrationReference reference;
  for (unsigned bits = 0; bits <= static_cast<unsigned>(kAllAccess); ++bits) {
    const auto access = static_cast<Access>(bits);
    for (std::uint32_t marks = 0; marks < 8; ++marks) {
      reference.state = RegistrationReference::state_of(access, 4096, marks);
      EXPECT_EQ(reference.access(), access);
      EXPECT_TRUE(reference.covers(0, 4096));
      EXPECT_FALSE(reference.covers(0, 4097));
      for (const std::uint32_t mark :
           {RegistrationReference::kUsed, RegistrationReference::kForgotten,
            RegistrationReference::kAsked})
        EXPECT_EQ(reference.has(mark), (marks & mark) != 0);
      for (unsigned other = 0; other < 256; ++other) {
        EXPECT_EQ(reference.is_open(static_cast<Access>(other)),
                  other == bits && marks == RegistrationReference::kUsed)
            << bits << " with " << marks << ", asked for " << other;
      }
    }
  }
}

TEST(PinTest, MarksComeAndGo) {
  RegistrationReference reference;
  const auto access = Access::remote_write | Access::local_write;
  reference.state = RegistrationReference::state_of(access, 4096, RegistrationReference::kAsked);
  reference.mark(RegistrationReference::kUsed);
  EXPECT_FALSE(reference.is_open(access));
  reference.unmark(RegistrationReference::kAsked);
  EXPECT_TRUE(reference.is_open(access));
  reference.mark(RegistrationReference::kForgotten);
  EXPECT_FALSE(reference.is_open(access));
  EXPECT_EQ(reference.access(), access);
}

TEST(PinTest, CountsReleasesOfOtherThreads) {
  ReferenceArena arena(nullptr, 0);
  RegistrationReference& reference = arena.add();
  for (int i = 0; i < 3; ++i) reference.add();
  EXPECT_EQ(leases_of(reference), 3U);
  rest_of(reference).given_back.fetch_add(2);
  EXPECT_EQ(leases_of(reference), 1U);
  reference.take_away();
  EXPECT_EQ(leases_of(reference), 0U);
}

}  // namespace
}  // namespace hbmwire::detail
