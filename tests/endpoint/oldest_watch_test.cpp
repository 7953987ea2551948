// SPDX-License-Identifier: MIT
#include "endpoint/oldest_watch.hpp"

#include "endpoint/endpoint_state.hpp"
#include "ends.hpp"

/// Unit tests of OldestWatch, which notices when operation_timeout has passed.
namespace hbmwire::test {
namespace {

using Clock = std::chrono::steady_clock;

TEST(OldestWatch, KnowsTheAgeOfTheOldest) {
  detail::OldestWatch watch(10ms);
  Clock::time_point now{};
  EXPECT_EQ(watch.look(0, 0, now), 0ms);
  EXPECT_EQ(watch.look(5, 0, now += 1ms), 0ms);
  EXPECT_EQ(watch.look(7, 4, now += 30ms), 30ms) << "the fifth goes on";
  EXPECT_EQ(watch.look(7, 5, now += 20ms), 20ms) << "the sixth was seen when the fifth was there";
  EXPECT_EQ(watch.look(7, 7, now += 1ms), 0ms);
  EXPECT_EQ(watch.look(8, 7, now += 1ms), 0ms);
}

TEST(OldestWatch, ProgressOfOthersDoesNotMakeTheOldestYounger) {
  detail::OldestWatch watch(10ms);
  Clock::time_point now{};
  std::uint32_t begun = ~std::uint32_t{0} - 500;  // wraps around soon
  const std::uint32_t oldest = begun++;
  std::chrono::nanoseconds age{};
  for (int i = 0; i < 1000; ++i) age = watch.look(++begun, oldest, now += 1ms);
  EXPECT_EQ(age, 999ms);
  // Each ends 50 ms after it began, and is never taken for much older or younger.
  for (int i = 0; i < 1000; ++i) {
    ++begun;
    age = watch.look(begun, begun - 50, now += 1ms);
    if (i < 100) continue;
    EXPECT_LE(age, 50ms);
    EXPECT_GE(age, 38ms);
  }
}

/// A timeout is noticed one look after a mark that is itself late by one look: a quarter of the
/// timeout in all.
void expect_seen_within_a_quarter(const EndpointOptions& options) {
  Ends ends(options);
  const auto& a = state_of(*ends.a);
  const auto eighth = options.operation_timeout / 8;
  auto now = detail::EndpointState::Clock::now();
  const auto look = a.next_look(now) - now;
  EXPECT_LE(look, eighth);
  detail::OperationWatches watches(options.operation_timeout);
  for (detail::OldestWatch* const watch : {&watches.posted, &watches.queued}) {
    // The second one begins after the first look, and the first one ends afterwards.
    EXPECT_EQ(watch->look(1, 0, now), 0ns);
    const auto begun = now;
    for (now += look; now - begun <= eighth; now += look) watch->look(2, 0, now);
    EXPECT_GE(watch->look(2, 1, now), now - begun - eighth);
  }
}

TEST(OperationTimeout, ATimeoutIsNoticedWithinAQuarterMore) {
  expect_seen_within_a_quarter({.peer_timeout = 500ms, .operation_timeout = 400ms});
  expect_seen_within_a_quarter({.peer_timeout = 10ms, .operation_timeout = 400ms});
  // An eighth of this timeout is just more than the longest time between two looks.
  expect_seen_within_a_quarter({.peer_timeout = 2s, .operation_timeout = 2100ms});
}

}  // namespace
}  // namespace hbmwire::test
