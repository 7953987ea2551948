// SPDX-License-Identifier: MIT
#include <algorithm>

#include "hbmwire/memory_key.hpp"

#include "ends.hpp"

// EndpointOptions::operation_timeout: the time from which it counts, and how soon it is noticed.
// LivePeer (dead_peer_test.cpp) tests an operation that the network holds up.
namespace hbmwire::test {
namespace {

struct ShortOfTime {
  explicit ShortOfTime(const EndpointOptions& options) : ends(options) {}

  Ends ends;
  Memory memory{ends.context, MemoryType::host, 4096};
  MemoryKey key = value(MemoryKey::pack(memory.region()));
  RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
};

TEST(OperationTimeout, CountsWhileAPutWaitsForRoom) {
  // Each put takes 30 ms, one after the other.
  ShortOfTime at({.send_depth = 2, .peer_timeout = 500ms, .operation_timeout = 150ms});
  std::vector<Transfer> puts;
  for (int i = 0; i < 40; ++i)
    puts.push_back(value(at.ends.a->put(at.memory.slice(0, 64), at.remote.slice(64, 64))));
  at.ends.drive([&] { return puts.back().done(); });
  EXPECT_TRUE(puts.front().poll());
  EXPECT_FALSE(puts.back().poll());
  ASSERT_TRUE(at.ends.a->error());
  EXPECT_EQ(at.ends.a->error()->code, Errc::timed_out) << describe(*at.ends.a->error());
  const auto late = std::ranges::count_if(puts, [](Transfer& put) {
    const auto over = put.poll();
    return !over && over.error().code == Errc::timed_out;
  });
  EXPECT_EQ(late, 1) << "the others are cancelled";
}

TEST(OperationTimeout, EndsAnImmediateForWhichThePeerHasNoPlace) {
  ShortOfTime at({.receive_depth = 4, .peer_timeout = 500ms, .operation_timeout = 300ms});
  std::vector<Transfer> puts;
  for (std::uint32_t i = 0; i < 6; ++i) {
    puts.push_back(
        value(at.ends.a->put(at.memory.slice(0, 8), at.remote.slice(64, 8), {.immediate = i})));
  }
  at.ends.drive([&] { return puts.back().done(); });
  EXPECT_TRUE(value(puts[3].poll()));
  const auto late = puts[4].poll();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::timed_out) << describe(late.error());
  const auto other = puts[5].poll();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::cancelled) << describe(other.error());
  EXPECT_EQ(other.error().hint, Hint::other_transfer);
}

TEST(OperationTimeout, EndsASmallMessageThatIsToArriveAndThatNoReceiveTakes) {
  ShortOfTime at({.peer_timeout = 500ms, .operation_timeout = 300ms});
  Transfer send =
      value(at.ends.a->send(at.memory.slice(0, 64), {.level = CompletionLevel::arrived}));
  at.ends.drive([&] { return send.done(); });
  const auto over = send.poll();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::timed_out) << describe(over.error());
  EXPECT_EQ(at.ends.a->phase(), EndpointPhase::failed);
}

}  // namespace
}  // namespace hbmwire::test
