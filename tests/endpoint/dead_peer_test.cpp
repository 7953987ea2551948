// SPDX-License-Identifier: MIT
#include <poll.h>

#include <memory>
#include <thread>
#include <vector>

#include "hbmwire/log.hpp"
#include "hbmwire/memory_key.hpp"

#include "emulation/tests/nic/under_plan.hpp"
#include "internals.hpp"
#include "peer_side.hpp"
#include "tests/support/change_link.hpp"

// A peer in another process that is killed, cut off, restarted, stopped, busy, or late.
namespace hbmwire::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPeerTimeout = 400ms;
// Extra time for a busy machine.
constexpr auto kSlack = 1s;

EndpointOptions quick() { return {.peer_timeout = kPeerTimeout}; }

struct Side : PeerSide {
  explicit Side(const PeerProcess& peer, const EndpointOptions& options = quick())
      : PeerSide(peer, options) {}
};

TEST(DeadPeer, AKilledPeerIsNoticedByASleeper) {
  PeerProcess peer;
  Side side(peer);
  peer.kill();
  EXPECT_LT(side.until_noticed(), kPeerTimeout + kSlack);
  ASSERT_TRUE(side.endpoint.error());
  EXPECT_EQ(side.endpoint.error()->code, Errc::peer_failed) << describe(*side.endpoint.error());
}

TEST(DeadPeer, AKilledPeerIsNoticedAtOnceByItsConnection) {
  PeerProcess peer;
  Side side(peer, {.peer_timeout = 20s});
  peer.kill();
  EXPECT_LT(side.until_noticed(), 2 * kSlack);
  ASSERT_TRUE(side.endpoint.error());
  EXPECT_EQ(side.endpoint.error()->code, Errc::peer_failed);
  EXPECT_EQ(side.endpoint.error()->hint, Hint::peer_gone) << describe(*side.endpoint.error());
}

TEST(DeadPeer, AKilledPeerIsNoticedWithoutAConnection) {
  PeerProcess peer;
  Side side(peer);
  peer.stop();  // otherwise it would see the end of the connection, and break off
  internals::forget_socket(side.worker);
  peer.kill();
  EXPECT_LT(side.until_noticed(), kPeerTimeout + kSlack);
  ASSERT_TRUE(side.endpoint.error());
  EXPECT_EQ(side.endpoint.error()->hint, Hint::peer_unreachable)
      << describe(*side.endpoint.error());
}

TEST(DeadPeer, APeerWhoseChildHasItsConnectionIsNoticedByTheProbe) {
  PeerProcess peer({.peer_timeout = 2s, .forks = true});
  Side side(peer);
  side.run_for(50ms);
  peer.kill();
  EXPECT_LT(side.until_noticed(), kPeerTimeout + kSlack);
  ASSERT_TRUE(side.endpoint.error());
  EXPECT_EQ(side.endpoint.error()->hint, Hint::peer_unreachable)
      << describe(*side.endpoint.error());
}

TEST(DeadPeer, TransfersStartedAfterThePeersDeathFailInTime) {
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

TEST(DeadPeer, APeerThatIsCutOffIsNoticedWithoutTransfers) {
  // A long peer_timeout, of which the slack is only a small part.
  constexpr auto kPatience = 4s;
  PeerProcess peer;
  Side side(peer, {.peer_timeout = kPatience});
  EXPECT_TRUE(change_link("emu0=down"));
  EXPECT_LT(side.until_noticed(), kPatience + kSlack / 2);
  EXPECT_EQ(side.endpoint.error()->code, Errc::peer_failed) << describe(*side.endpoint.error());
  EXPECT_EQ(side.endpoint.error()->hint, Hint::peer_unreachable);
  EXPECT_TRUE(change_link("emu0=up"));
}

TEST(DeadPeer, APeerThatIsCutOffIsNoticedByAnEventLoop) {
  PeerProcess peer;
  Side side(peer);
  EXPECT_TRUE(change_link("emu0=down"));
  const auto begun = Clock::now();
  while (side.endpoint.phase() == EndpointPhase::ready && Clock::now() - begun < 20s) {
    while (side.worker.progress() != 0) {
    }
    if (!value(side.worker.arm())) continue;
    EXPECT_LE(side.worker.wake_after(), kPeerTimeout / 4) << "a peer is looked at more often";
    pollfd waits{side.worker.fd(), POLLIN, 0};
    ::poll(&waits, 1, static_cast<int>(side.worker.wake_after().count()));
  }
  EXPECT_LT(Clock::now() - begun, kPeerTimeout + kSlack);
  EXPECT_TRUE(change_link("emu0=up"));
}

TEST(DeadPeer, APeerThatIsCutOffIsTheErrorOfAllTransfers) {
  PeerProcess peer;
  Side side(peer);
  EXPECT_TRUE(change_link("emu0=down"));
  std::vector<Transfer> puts;
  for (int i = 0; i < 4; ++i) puts.push_back(value(side.put()));
  for (Transfer& put : puts) {
    const auto over = put.wait(20s);
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
    EXPECT_EQ(over.error().hint, Hint::peer_unreachable);
  }
  EXPECT_TRUE(change_link("emu0=up"));
}

TEST(DeadPeer, APeerThatIsCutOffLeavesATransferUnsettledInTime) {
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

TEST(DeadPeer, AShortInterruptionEndsNothing) {
  PeerProcess peer;
  Side side(peer, {.peer_timeout = 4s});
  EXPECT_TRUE(change_link("emu0=down"));
  Transfer put = value(side.put());
  EXPECT_FALSE(value(put.poll()));
  EXPECT_TRUE(change_link("emu0=up"));
  good(put.wait(20s));
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
}

TEST(DeadPeer, APeerRestartedOnTheSamePortIsAnotherOne) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a child by fork(2) of a process with threads starts none under ThreadSanitizer";
#endif
  auto peer = std::make_unique<PeerProcess>(PeerProcess::Options{.packs = true});
  const RemoteKey old_key = value(RemoteKey::unpack(peer->key()));
  const std::uint16_t port = peer->port();
  Side side(*peer);
  const RemoteRegion old = side.target;
  peer.reset();
  // The new peer is forked from this process, which has a NIC open. A child cannot use that NIC,
  // and the new peer opens its own.
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
  const auto of_another = side.endpoint.remote(old_key);
  ASSERT_FALSE(of_another) << "a key of a process that has ended opens its successor's memory";
  EXPECT_EQ(of_another.error().hint, Hint::memory_key_other_process)
      << describe(of_another.error());
  side.target = value(side.endpoint.remote("target", within(20s)));
  EXPECT_NE(internals::look_at(side.target).connection, internals::look_at(old).connection);
  good(value(side.put()).wait(20s));
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
}

TEST(DeadPeer, FailedPutsAreNotRepeatedByReconnecting) {
  PeerProcess peer;
  Side side(peer);
  EXPECT_TRUE(change_link("emu0=down"));
  std::vector<Transfer> puts;
  for (int i = 0; i < 200; ++i) puts.push_back(value(side.put()));  // more than the queue holds
  for (Transfer& put : puts) EXPECT_FALSE(put.wait(20s));
  EXPECT_TRUE(change_link("emu0=up"));
  good(side.endpoint.reconnect(within(20s)));
  side.run_for(200ms);
  EXPECT_EQ(peer.changed_bytes(), 0U);
  for (Transfer& put : puts) EXPECT_FALSE(put.poll());
}

/// Small and large messages, of which the peer has received some when they fail.
TEST(DeadPeer, FailedMessagesDoNotComeAgainByReconnecting) {
  Ends ends(quick());
  Memory memory(ends.context, MemoryType::host, 1 << 20);
  std::vector<Transfer> sends;
  const auto send = [&](std::uint64_t bytes) {
    sends.push_back(
        value(ends.a->send(memory.slice(0, bytes), {.level = CompletionLevel::arrived})));
  };
  for (const std::uint64_t bytes : {64U, 4096U, 1U << 20U}) send(bytes);
  const Deadline arrive = Deadline::after(50ms);
  ends.drive([&] { return arrive.passed(); });
  EXPECT_TRUE(change_link("emu0=down"));
  for (const std::uint64_t bytes : {64U, 4096U, 1U << 20U}) send(bytes);
  for (Transfer& each : sends) {
    ends.drive([&] { return each.done(); });
    EXPECT_FALSE(each.poll());
  }
  ends.drive([&] { return ends.b->phase() == EndpointPhase::failed; });
  EXPECT_TRUE(change_link("emu0=up"));
  std::optional<Endpoint> again;
  std::thread accepting([&] { again.emplace(value(ends.listener.accept(within(20s)))); });
  good(ends.a->reconnect(within(20s)));
  accepting.join();
  // The first message that arrives at the new endpoint is one that was sent after reconnecting.
  Transfer receive = value(again->receive(memory.all()));
  const Deadline later = Deadline::after(100ms);
  ends.drive([&] { return later.passed(); });
  EXPECT_FALSE(receive.done());
  Transfer fresh = value(ends.a->send(memory.slice(0, 100)));
  finish(ends, receive);
  EXPECT_EQ(receive.bytes(), 100U);
}

TEST(LivePeer, AKeyOfAnotherProcessIsRefused) {
  const PeerProcess peer;
  Side side(peer);
  const MemoryKey own = value(MemoryKey::pack(side.memory.region()));
  const auto remote = side.endpoint.remote(value(RemoteKey::unpack(own.bytes())));
  ASSERT_FALSE(remote) << "a key of this process";
  EXPECT_EQ(remote.error().code, Errc::peer_failed) << describe(remote.error());
  EXPECT_EQ(remote.error().hint, Hint::memory_key_other_process);
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
}

/// The peer's NIC serves all of these transfers without its process, as long as there are places
/// for messages and immediates.
TEST(LivePeer, AStoppedPeerIsNotNeededByTransfersOfItsNic) {
  const PeerProcess peer;
  Side side(peer);
  side.run_for(50ms);
  peer.stop();
  const Slice here = side.memory.slice(0, 64);
  const TransferPart part{here, side.target.slice(0, 64)};
  const auto finishes = [](Result<Transfer> transfer) {
    good(value(std::move(transfer)).wait(20s));
  };
  finishes(value(side.endpoint.prepare_put({&part, 1})).post());
  finishes(value(side.endpoint.prepare_get({&part, 1})).post());
  finishes(side.endpoint.get(here, part.remote));
  finishes(side.endpoint.put(here, part.remote, {.level = CompletionLevel::visible}));
  finishes(side.endpoint.fetch_add(side.target.slice(0, 8), 1));
  finishes(side.endpoint.flush());
  for (std::uint32_t i = 0; i < 60; ++i)  // the peer has 64 places
    finishes(side.endpoint.put(here, part.remote, {.immediate = i}));
  finishes(side.endpoint.send(side.memory.slice(0, 100)));
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
  peer.go_on();
}

TEST(LivePeer, AStoppedPeerIsNotDeclaredDead) {
  PeerProcess peer;
  Side side(peer);
  side.run_for(50ms);
  peer.stop();
  side.run_for(5 * kPeerTimeout);
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready)
      << describe(side.endpoint.error().value_or(Error{}));
  // The NIC of the stopped peer still works.
  good(value(side.put()).wait(20s));
  good(value(side.endpoint.get(side.memory.slice(0, 64), side.target.slice(0, 64))).wait(20s));
  good(value(side.endpoint.fetch_add(side.target.slice(0, 8), 1)).wait(20s));
  peer.go_on();
  static_cast<void>(value(side.endpoint.remote("target", within(20s))));
}

TEST(LivePeer, ABusyPeerIsNotDeclaredDead) {
  PeerProcess peer({.port = 0, .peer_timeout = 2s, .busy = true});
  Side side(peer);
  side.run_for(5 * kPeerTimeout);
  // More questions than the peer has receives for.
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

TEST(LivePeer, APutThatIsUnderWayForTooLongEndsTheEndpoint) {
  PeerProcess peer({.peer_timeout = 30s});
  Side side(peer, {.peer_timeout = 20s, .operation_timeout = 300ms});
  EXPECT_TRUE(change_link("emu0=down"));  // the NIC retries for 10 s
  Transfer oldest = value(side.put());
  Transfer younger = value(side.endpoint.get(side.memory.slice(0, 64), side.target.slice(0, 64)));
  const auto took = side.until_noticed();
  EXPECT_GE(took, 250ms);  // less than 300 ms: the transfer was in flight before the clock began
  EXPECT_LT(took, 300ms + 2 * kSlack);
  EXPECT_TRUE(change_link("emu0=up"));
  ASSERT_TRUE(side.endpoint.error());
  EXPECT_EQ(side.endpoint.error()->code, Errc::timed_out) << describe(*side.endpoint.error());
  const auto late = oldest.wait(20s);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::timed_out) << describe(late.error());
  const auto other = younger.wait(20s);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::cancelled) << describe(other.error());
  EXPECT_EQ(other.error().hint, Hint::other_transfer);
}

/// Expects that the endpoint ends by its operation timeout, since the network holds up `oldest`.
void expect_ends_by_operation_timeout(Side& side, Transfer oldest) {
  const auto took = side.until_noticed();
  EXPECT_GE(took, 250ms);  // less than 300 ms: the transfer was in flight before the clock began
  EXPECT_TRUE(change_link("emu0=up"));
  const auto late = oldest.wait(20s);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::timed_out) << describe(late.error());
}

TEST(LivePeer, AGetThatIsUnderWayForTooLongEndsTheEndpoint) {
  PeerProcess peer({.peer_timeout = 30s});
  Side side(peer, {.peer_timeout = 20s, .operation_timeout = 300ms});
  EXPECT_TRUE(change_link("emu0=down"));
  expect_ends_by_operation_timeout(
      side, value(side.endpoint.get(side.memory.slice(0, 64), side.target.slice(0, 64))));
}

TEST(LivePeer, AnAtomicThatIsUnderWayForTooLongEndsTheEndpoint) {
  PeerProcess peer({.peer_timeout = 30s});
  Side side(peer, {.peer_timeout = 20s, .operation_timeout = 300ms});
  EXPECT_TRUE(change_link("emu0=down"));
  expect_ends_by_operation_timeout(side,
                                   value(side.endpoint.fetch_add(side.target.slice(0, 8), 1)));
}

/// The probe of an idle connection is no operation, so operation_timeout does not count for it: the
/// NIC alone decides that it has failed.
TEST(LivePeer, AnInterruptionWithoutTransfersMayExceedTheOperationTimeout) {
  PeerProcess peer({.peer_timeout = 30s});
  Side side(peer, {.peer_timeout = 6s, .operation_timeout = 100ms});
  side.run_for(50ms);
  EXPECT_TRUE(change_link("emu0=down"));
  side.run_for(2100ms);  // it was probed after 1.5 s, and the NIC retries that for 3 s
  EXPECT_NE(internals::look_at_endpoint(side.worker).outstanding, 0U) << "nothing was probed";
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready)
      << describe(side.endpoint.error().value_or(Error{}));
  EXPECT_TRUE(change_link("emu0=up"));
  const Deadline deadline = Deadline::after(10s);
  while (internals::look_at_endpoint(side.worker).outstanding != 0 && !deadline.passed())
    side.run_for(10ms);
  good(value(side.put()).wait(20s));
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
}

/// The time of an operation counts from its own start, even if a probe before it hangs.
TEST(LivePeer, AnOperationBehindAProbeAgesFromItsOwnStart) {
  PeerProcess peer({.peer_timeout = 30s});
  Side side(peer, {.peer_timeout = 20s, .operation_timeout = 1s});
  EXPECT_TRUE(change_link("emu0=down"));
  internals::probe(side.worker);
  side.run_for(1500ms);
  ASSERT_EQ(side.endpoint.phase(), EndpointPhase::ready)
      << describe(side.endpoint.error().value_or(Error{}));
  Transfer put = value(side.put());
  const auto took = side.until_noticed();
  EXPECT_GE(took, 900ms);
  EXPECT_LT(took, 1250ms + 2 * kSlack);
  EXPECT_TRUE(change_link("emu0=up"));
  const auto late = put.wait(20s);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::timed_out) << describe(late.error());
  EXPECT_EQ(late.error().hint, Hint::peer_slow) << describe(late.error());
}

/// The plan fails the 300,000th poll of the process. After both ends have connected, only a_worker
/// polls, so its poll is the one that fails.
TEST(LostCompletions, AFailedPollEndsTheEndpointAtOnce) {
  if (!under_plan("fail,call=ibv_poll_cq,nth=300000,errno=5")) return;
  Ends ends({.peer_timeout = 20s});
  const Deadline deadline = Deadline::after(60s);
  while (ends.a->phase() == EndpointPhase::ready && !deadline.passed()) ends.a_worker.progress();
  EXPECT_EQ(ends.a->phase(), EndpointPhase::failed) << "the endpoint waits for something";
  ASSERT_TRUE(ends.a->error());
  EXPECT_EQ(ends.a->error()->code, Errc::system) << describe(*ends.a->error());
  EXPECT_EQ(ends.a->error()->hint, Hint::completions_lost);
}

TEST(LivePeer, ATransferCancelledWhileThePeerIsStoppedReportsUnsettled) {
  PeerProcess peer;
  Side side(peer);
  side.run_for(50ms);
  peer.stop();
  EXPECT_TRUE(change_link("emu0=down"));  // keeps something in flight
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

/// A WRITE stays in the network while its sender's time runs out. It is executed in the end, unless
/// the responder's queue pair is in ERROR by then. The sender's report must hold: after it, and
/// after the transfer has settled, no byte may change.
TEST(LateDelivery, NothingArrivesAfterTheReport) {
  if (!under_plan("late,op=write,nth=1,ms=1500")) return;
  // The peer does not notice by itself that this side's queue pair is gone.
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
