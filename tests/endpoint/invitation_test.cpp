// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <array>
#include <thread>

#include "hbmwire/memory_key.hpp"

#include "ends.hpp"

/// Connects by bytes that the application carries.
namespace hbmwire::test {
namespace {

/// Two workers of a process, driven by one thread.
struct Two {
  explicit Two(const EndpointOptions& a_options = {}, const EndpointOptions& b_options = {})
      : a(value(EndpointInvitation::create(a_worker, a_options))),
        b(value(EndpointInvitation::create(b_worker, b_options))) {}

  /// Polls both ends until each has an endpoint, or the time is over.
  bool meet(std::chrono::nanoseconds time = 20s) {
    const Deadline deadline = Deadline::after(time);
    while (!(a_end && b_end) && !deadline.passed()) {
      if (!a_end) a_end = value(a.poll());
      if (!b_end) b_end = value(b.poll());
    }
    return a_end && b_end;
  }

  void expect_works() {
    Memory memory(context, MemoryType::host, 4096);
    memory.fill(1);
    const MemoryKey key = value(MemoryKey::pack(memory.region()));
    for (Endpoint* const end : {&*a_end, &*b_end}) {
      const RemoteRegion remote = value(end->remote(value(RemoteKey::unpack(key.bytes()))));
      good(value(end->put(memory.slice(0, 64), remote.slice(64, 64))).wait(10s));
      EXPECT_EQ(end->phase(), EndpointPhase::ready);
    }
    const auto contents = memory.contents();
    EXPECT_TRUE(std::equal(contents.begin(), contents.begin() + 64, contents.begin() + 64));
  }

  Context context = value(Context::create({.memory = {MemoryType::host}}));
  Worker a_worker = value(Worker::create(context));
  Worker b_worker = value(Worker::create(context));
  EndpointInvitation a;
  EndpointInvitation b;
  std::optional<Endpoint> a_end;
  std::optional<Endpoint> b_end;
};

EndpointOptions quick() { return {.peer_timeout = 100ms}; }

std::vector<std::byte> copy(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

TEST(Invitation, BothBegin) {
  Two two;
  EXPECT_LE(two.a.bytes().size(), 512U);
  good(two.a.start(two.b.bytes()));
  good(two.b.start(two.a.bytes()));
  ASSERT_TRUE(two.meet());
  two.expect_works();
}

// The bytes of the two ends decide which one contacts the other. Several rounds in both orders
// cover both cases.
TEST(Invitation, OneBeginsLongBeforeTheOther) {
  for (int round = 0; round < 4; ++round) {
    Two two(quick(), quick());
    EndpointInvitation& early = round % 2 == 0 ? two.a : two.b;
    EndpointInvitation& late = round % 2 == 0 ? two.b : two.a;
    good(early.start(late.bytes()));
    // Several times as long as the NIC retries for a missing peer.
    const Deadline deadline = Deadline::after(400ms);
    while (!deadline.passed()) EXPECT_FALSE(value(early.poll()));
    good(late.start(early.bytes()));
    ASSERT_TRUE(two.meet());
    two.expect_works();
  }
}

TEST(Invitation, ThreadsWaitForEachOther) {
  Two two;
  std::thread other([&] { two.b_end = value(two.b.connect(two.a.bytes(), within(20s))); });
  two.a_end = value(two.a.connect(two.b.bytes(), within(20s)));
  other.join();
  two.expect_works();
}

TEST(Invitation, APeerThatNeverBeginsIsWaitedForUntilTheDeadline) {
  Two two(quick(), quick());
  const auto before = std::chrono::steady_clock::now();
  const auto none = two.a.connect(two.b.bytes(), within(300ms));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::timed_out);
  EXPECT_EQ(none.error().stage, Stage::connect);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 3s);
  // The other end may still come.
  good(two.b.start(two.a.bytes()));
  ASSERT_TRUE(two.meet());
  two.expect_works();
}

TEST(Invitation, KeysAreProven) {
  Two same({.pre_shared_key = key_of(1)}, {.pre_shared_key = key_of(1)});
  good(same.a.start(same.b.bytes()));
  good(same.b.start(same.a.bytes()));
  ASSERT_TRUE(same.meet());
  same.expect_works();
  for (const auto& other : {key_of(2), std::vector<std::byte>{}}) {
    Two two({.pre_shared_key = key_of(1)}, {.pre_shared_key = other});
    for (const auto& refused : {two.a.start(two.b.bytes()), two.b.start(two.a.bytes())}) {
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, Errc::permission_denied);
      EXPECT_EQ(refused.error().hint, Hint::pre_shared_key);
    }
  }
}

class Damaged : public ::testing::TestWithParam<bool> {};

TEST_P(Damaged, InvitationsAreRefusedWhicheverByteIsDamagedOrMissing) {
  EndpointOptions options{.hello = key_of(3)};
  if (GetParam()) options.pre_shared_key = key_of(1);
  Two two(options, options);
  const auto bytes = copy(two.b.bytes());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(two.a.start(std::span(bytes).first(size))) << size;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto damaged = bytes;
    damaged[at] ^= std::byte{4};
    const auto refused = two.a.start(damaged);
    ASSERT_FALSE(refused) << at;
    EXPECT_NE(refused.error().hint, Hint::none);
  }
  auto longer = bytes;
  longer.push_back({});
  EXPECT_FALSE(two.a.start(longer));
  EXPECT_FALSE(two.a.start(two.a.bytes()));
  EXPECT_FALSE(two.a.poll());
  // The failures did not use up the invitation.
  good(two.a.start(bytes));
  EXPECT_FALSE(two.a.start(bytes));
  good(two.b.start(two.a.bytes()));
  ASSERT_TRUE(two.meet());
  EXPECT_FALSE(two.a.poll());
}

INSTANTIATE_TEST_SUITE_P(With, Damaged, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Key" : "NoKey"; });

// Each end starts with the bytes of the next one, so no end is contacted by the one whose bytes it
// has.
TEST(Invitation, ACircleOfThreeIsNoPair) {
  Two two(quick(), quick());
  EndpointInvitation c = value(EndpointInvitation::create(two.b_worker, quick()));
  good(two.a.start(two.b.bytes()));
  good(two.b.start(c.bytes()));
  good(c.start(two.a.bytes()));
  const Deadline deadline = Deadline::after(500ms);
  while (!deadline.passed()) {
    for (EndpointInvitation* const each : {&two.a, &two.b, &c}) {
      const auto polled = each->poll();
      EXPECT_FALSE(polled && *polled);
    }
  }
}

TEST(Invitation, ADroppedInvitationDoesNotDisturbItsPeer) {
  Context context = value(Context::create({.memory = {MemoryType::host}}));
  const Worker worker = value(Worker::create(context));
  EndpointInvitation a = value(EndpointInvitation::create(worker, quick()));
  {
    EndpointInvitation b = value(EndpointInvitation::create(worker, quick()));
    good(b.start(a.bytes()));
    good(a.start(b.bytes()));
  }
  // The end that is left may fail, or wait in vain.
  const Deadline deadline = Deadline::after(300ms);
  bool failed = false;
  while (!deadline.passed() && !failed) failed = !a.poll();
}

}  // namespace
}  // namespace hbmwire::test
