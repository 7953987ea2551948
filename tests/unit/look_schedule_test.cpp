// SPDX-License-Identifier: MIT
#include "endpoint/look_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace hbmwire::detail {
namespace {

struct Looked {
  LookPlace look;
};

using Schedule = LookSchedule<Looked>;

Schedule::Time at(int moment) { return Schedule::Time(std::chrono::milliseconds(moment)); }

TEST(LookSchedule, TheEntryThatIsDueFirstComesFirst) {
  Schedule schedule;
  EXPECT_EQ(schedule.next(), Schedule::Time::max());
  EXPECT_EQ(schedule.due(at(1000)), nullptr);
  const auto early = std::make_shared<Looked>();
  const auto late = std::make_shared<Looked>();
  schedule.add(late);
  schedule.add(early);
  schedule.look_at(*late, at(20));
  schedule.look_at(*early, at(10));
  EXPECT_EQ(schedule.due(at(10)), nullptr) << "due after its moment, and not at it";
  EXPECT_EQ(schedule.due(at(11)), early.get());
  schedule.look_at(*early, at(30));
  EXPECT_EQ(schedule.due(at(25)), late.get());
  EXPECT_EQ(schedule.take_out(*late), late);
  schedule.look_earlier(*late, at(1));  // it was already removed
  EXPECT_EQ(schedule.next(), at(30));
  schedule.look_earlier(*early, at(40));
  EXPECT_EQ(schedule.next(), at(30)) << "look_earlier() makes no look later";
  schedule.look_at_all();
  EXPECT_EQ(schedule.due(at(1)), early.get());
}

// An endpoint that is removed may still report an event.
TEST(LookSchedule, AnEntryDestroyedWithItMayStillCallIt) {
  struct Speaks {
    explicit Speaks(LookSchedule<Speaks>& schedule) : in(schedule) {}

    Speaks(const Speaks&) = delete;
    Speaks& operator=(const Speaks&) = delete;

    ~Speaks() { in.look_earlier(*this, at(1)); }

    LookPlace look;
    LookSchedule<Speaks>& in;
  };

  LookSchedule<Speaks> schedule;
  for (int i = 0; i < 3; ++i) schedule.add(std::make_shared<Speaks>(schedule));
  schedule.take_out(**schedule.begin());
  schedule.clear();
  EXPECT_TRUE(schedule.empty());
}

// The loss of a completion queue is reported to all endpoints, each of which then asks for a look.
TEST(LookSchedule, AWalkMeetsEachEntryThoughEachMovesForward) {
  // In the first round look_earlier() changes nothing, in the second it moves each entry forward.
  for (int first = 0; first < 2; ++first) {
    Schedule schedule;
    for (int i = 0; i < 100; ++i) schedule.add(std::make_shared<Looked>());
    int looked = 0;
    for (const auto& entry : schedule) schedule.look_at(*entry, at(1000 * first));
    std::vector<Looked*> told;
    for (const auto& entry : schedule) {
      told.push_back(entry.get());
      schedule.look_earlier(*told.back(), at(500 - looked++));
    }
    std::ranges::sort(told);
    EXPECT_EQ(std::ranges::unique(told).begin(), told.end());
    EXPECT_EQ(told.size(), 100U);
  }
}

TEST(LookSchedule, KeepsItsOrderWhateverIsDone) {
  std::mt19937 random(20261127);  // NOLINT: the same numbers each time
  const auto below = [&](std::size_t most) { return static_cast<int>(random() % most); };
  Schedule schedule;
  std::vector<std::shared_ptr<Looked>> inside;
  for (int step = 0; step < 20'000; ++step) {
    const int what = below(4);
    if (inside.empty() || (what == 0 && inside.size() < 100)) {
      inside.push_back(std::make_shared<Looked>());
      schedule.add(inside.back());
    } else if (what == 1) {
      const auto taken = inside.begin() + below(inside.size());
      EXPECT_EQ(schedule.take_out(**taken), *taken);
      inside.erase(taken);
    } else {
      schedule.look_at(*inside[static_cast<std::size_t>(below(inside.size()))], at(below(50)));
    }
    const auto first =
        std::ranges::min_element(inside, {}, [](const auto& entry) { return entry->look.next; });
    ASSERT_EQ(schedule.next(), inside.empty() ? Schedule::Time::max() : (*first)->look.next);
    ASSERT_EQ(schedule.size(), inside.size());
  }
}

}  // namespace
}  // namespace hbmwire::detail
