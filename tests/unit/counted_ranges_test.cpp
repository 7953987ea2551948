// SPDX-License-Identifier: MIT
#include "memory/host/counted_ranges.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <vector>

namespace hbmwire::memory::host {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Parts = std::vector<AddressRange>;

Parts remove(CountedRanges& ranges, AddressRange range) {
  Parts parts;
  ranges.remove(range, [&](AddressRange part) { parts.push_back(part); });
  return parts;
}

Parts uncovered(const CountedRanges& ranges, AddressRange range) {
  Parts parts;
  ranges.find_uncovered(range, [&](AddressRange part) { parts.push_back(part); });
  return parts;
}

TEST(CountedRanges, ReportThePartsThatNoOtherRangeCovers) {
  CountedRanges ranges;
  ranges.add({10, 50});
  ranges.add({20, 30});
  ranges.add({45, 60});
  EXPECT_THAT(remove(ranges, {10, 50}), ElementsAre(AddressRange{10, 20}, AddressRange{30, 45}));
  EXPECT_THAT(uncovered(ranges, {0, 100}),
              ElementsAre(AddressRange{0, 20}, AddressRange{30, 45}, AddressRange{60, 100}));
  EXPECT_THAT(remove(ranges, {20, 30}), ElementsAre(AddressRange{20, 30}));
  EXPECT_THAT(remove(ranges, {45, 60}), ElementsAre(AddressRange{45, 60}));
  EXPECT_TRUE(ranges.empty());
}

TEST(CountedRanges, CountTheSameRangeAsOftenAsItWasAdded) {
  CountedRanges ranges;
  ranges.add({1, 2});
  ranges.add({1, 2});
  EXPECT_THAT(remove(ranges, {1, 2}), IsEmpty());
  EXPECT_THAT(remove(ranges, {1, 2}), ElementsAre(AddressRange{1, 2}));
  EXPECT_THAT(remove(ranges, {1, 2}), IsEmpty()) << "it was not added a third time";
  ranges.add({5, 5});
  EXPECT_TRUE(ranges.empty()) << "nothing in it";
}

// Compares with a counter for each address, over random additions and removals.
TEST(CountedRanges, AgreeWithACounterForEachAddress) {
  rc::check([] {
    constexpr std::uint64_t kAddresses = 24;
    CountedRanges ranges;
    std::array<int, kAddresses> counters{};
    Parts added;
    const auto count = [&](AddressRange range, int change) {
      for (std::uint64_t at = range.begin; at != range.end; ++at) counters.at(at) += change;
    };
    const auto mark = [](const Parts& parts) {
      std::array<bool, kAddresses> marks{};
      for (const AddressRange& part : parts)
        for (std::uint64_t at = part.begin; at != part.end; ++at) marks.at(at) = true;
      return marks;
    };
    const int steps = *rc::gen::inRange(0, 40);
    for (int step = 0; step != steps; ++step) {
      std::array<bool, kAddresses> expected{};
      if (added.empty() || *rc::gen::inRange(0, 3) != 0) {
        const auto begin = *rc::gen::inRange<std::uint64_t>(0, kAddresses - 1);
        added.push_back({begin, *rc::gen::inRange<std::uint64_t>(begin + 1, kAddresses)});
        ranges.add(added.back());
        count(added.back(), 1);
      } else {
        const auto which = *rc::gen::inRange<std::size_t>(0, added.size());
        const AddressRange gone = added[which];
        added.erase(added.begin() + static_cast<std::ptrdiff_t>(which));
        count(gone, -1);
        for (std::uint64_t at = gone.begin; at != gone.end; ++at)
          expected.at(at) = counters.at(at) == 0;
        RC_ASSERT(mark(remove(ranges, gone)) == expected);
      }
      Parts covered;
      ranges.find_covered([&](AddressRange part) { covered.push_back(part); });
      for (std::uint64_t at = 0; at != kAddresses; ++at) expected.at(at) = counters.at(at) != 0;
      RC_ASSERT(mark(covered) == expected);
      for (bool& is : expected) is = !is;
      RC_ASSERT(mark(uncovered(ranges, {0, kAddresses})) == expected);
    }
    RC_ASSERT(ranges.empty() == added.empty());
  });
}

}  // namespace
}  // namespace hbmwire::memory::host
