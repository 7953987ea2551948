// SPDX-License-Identifier: MIT
#include <memory>
#include <thread>

#include "hbmwire/log.hpp"

#include "emulation/tests/nic/under_plan.hpp"
#include "peer_side.hpp"
#include "tests/support/change_link.hpp"

// A peer in another process that is killed, cut off, restarted, stopped, busy, or late.
namespace hbmwire::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPeerTimeout = 400ms;
// What a busy machine may take besides.
constexpr auto kSlack = 1s;

EndpointOptions quick() { return {.peer_timeout = kPeerTimeout}; }

struct Side : PeerSide {
  explicit Side(const PeerProcess& peer, const EndpointOptions& options = quick())
      : PeerSide(peer, options) {}
};

TEST(DeadPeer, AKilledOneIsNoticedByASleeper) {
  PeerProcess peer;
  Side side(peer);
  peer.kill();
  EXPECT_LT(side.until_noticed(), kPeerTimeout + kSlack);
  ASSERT_TRUE(side.endpoint.error());
  EXPECT_EQ(side.endpoint.error()->code, Errc::peer_failed) << describe(*side.endpoint.error());
}

TEST(DeadPeer, WhatIsStartedAfterItsDeathFailsWithinTheBound) {
  PeerProcess peer;
  Side side(peer);
  peer.kill();
  const auto begun = Clock::now();
  Transfer put = value(side.put());
  const auto over = put.wait(20s);
  EXPECT_LT(Clock::now() - begun, 2 * kPeerTimeout + kSlack);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::failed);
}

TEST(DeadPeer, OneThatIsCutOffIsNoticedThoughNothingIsUnderWay) {
  PeerProcess peer;
  Side side(peer);
  EXPECT_TRUE(change_link("emu0=down"));
  EXPECT_LT(side.until_noticed(), kPeerTimeout + kSlack);
  EXPECT_EQ(side.endpoint.error()->code, Errc::peer_failed) << describe(*side.endpoint.error());
  EXPECT_TRUE(change_link("emu0=up"));
}

TEST(DeadPeer, OneThatIsCutOffLeavesATransferUnsettledInTime) {
  PeerProcess peer;
  Side side(peer);
  EXPECT_TRUE(change_link("emu0=down"));
  Transfer put = value(side.put());
  const auto begun = Clock::now();
  const auto over = put.wait(20s);
  EXPECT_LT(Clock::now() - begun, 2 * kPeerTimeout + kSlack);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::peer_failed);
  EXPECT_FALSE(put.settled());
  EXPECT_TRUE(change_link("emu0=up"));
}

TEST(DeadPeer, AShortInterruptionIsNone) {
  PeerProcess peer;
  Side side(peer, {.peer_timeout = 4s});
  EXPECT_TRUE(change_link("emu0=down"));
  Transfer put = value(side.put());
  EXPECT_FALSE(value(put.poll()));
  EXPECT_TRUE(change_link("emu0=up"));
  good(put.wait(20s));
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
}

TEST(DeadPeer, RestartedOnTheSamePortItIsAnotherOne) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a child by fork(2) of a process with threads starts none under ThreadSanitizer";
#endif
  auto peer = std::make_unique<PeerProcess>();
  const std::uint16_t port = peer->port();
  Side side(*peer);
  const RemoteRegion old = side.target;
  peer.reset();
  // The new one is made by a child that has no use of this one's NIC, and does not ask for it.
  PeerProcess again({.port = port, .peer_timeout = 2s, .busy = false});
  EXPECT_LT(side.until_noticed(), kPeerTimeout + kSlack);
  while (side.endpoint.phase() == EndpointPhase::ending) side.worker.progress();
  const auto refused = side.put();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::peer_failed);

  good(side.endpoint.reconnect(within(20s)));
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
  EXPECT_FALSE(side.endpoint.error());
  const auto stale = side.put();
  ASSERT_FALSE(stale) << "an old remote region came back to life";
  EXPECT_EQ(stale.error().hint, Hint::remote_region_stale) << describe(stale.error());
  side.target = value(side.endpoint.remote("target", within(20s)));
  EXPECT_NE(side.target.connection, old.connection);
  good(value(side.put()).wait(20s));
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
}

TEST(LivePeer, AStoppedOneIsNotDeclaredDead) {
  PeerProcess peer;
  Side side(peer);
  side.run_for(50ms);
  peer.stop();
  side.run_for(5 * kPeerTimeout);
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready)
      << describe(side.endpoint.error().value_or(Error{}));
  good(value(side.put()).wait(20s));  // its NIC works on
  peer.go_on();
  static_cast<void>(value(side.endpoint.remote("target", within(20s))));
}

TEST(LivePeer, ABusyOneIsNotDeclaredDead) {
  PeerProcess peer({.port = 0, .peer_timeout = 2s, .busy = true});
  Side side(peer);
  side.run_for(5 * kPeerTimeout);
  // More questions than it has receives for.
  for (int i = 0; i < 12; ++i) {
    const auto answer = side.endpoint.remote("target", within(50ms));
    if (!answer) {
      EXPECT_EQ(answer.error().code, Errc::timed_out) << describe(answer.error());
    }
  }
  side.run_for(2 * kPeerTimeout);
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready)
      << describe(side.endpoint.error().value_or(Error{}));
  good(value(side.put()).wait(20s));
}

TEST(LivePeer, WhatIsCancelledWhileItIsStoppedIsUnsettledAndSaysSo) {
  PeerProcess peer;
  Side side(peer);
  side.run_for(50ms);
  peer.stop();
  EXPECT_TRUE(change_link("emu0=down"));  // so that something is under way
  Transfer put = value(side.put());
  const auto begun = Clock::now();
  const auto cancelled = put.cancel();
  EXPECT_LT(Clock::now() - begun, kPeerTimeout + kSlack);
  EXPECT_TRUE(change_link("emu0=up"));
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Errc::timed_out);
  EXPECT_EQ(cancelled.error().hint, Hint::peer_unsettled);
  EXPECT_FALSE(put.settled());
  peer.go_on();
}

/// A WRITE that stays in the network while its sender's time runs out, and is executed at last
/// unless the responder's queue pair is in ERROR by then. Takes the sender's word: once the
/// transfer is reported, and settled, not a byte may change.
TEST(LateDelivery, NothingArrivesAfterTheReport) {
  if (!under_plan("late,op=write,nth=1,ms=1500")) return;
  // The peer does not notice by itself that this side's queue pair has gone.
  PeerProcess peer({.port = 0, .peer_timeout = 30s, .busy = false});
  Side side(peer, {.peer_timeout = 600ms});
  Transfer put = value(side.put(4096));
  const auto over = put.wait(20s);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
  EXPECT_TRUE(put.settled());
  EXPECT_EQ(peer.changed_bytes(), 0U) << "before it was reported";
  std::this_thread::sleep_for(2s);
  EXPECT_EQ(peer.changed_bytes(), 0U) << "after it was reported";
}

}  // namespace
}  // namespace hbmwire::test
