// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "hbmwire/memory_key.hpp"

#include "shared_memory_side.hpp"
#include "tests/support/lent_memory.hpp"

/// The end of endpoints between two processes of a node, and of keys of memory between them; also
/// peers that have stopped.
namespace hbmwire::test {
namespace {

using SharedMemoryEnd = NodeWays;

constexpr std::uint64_t kPiece = 512 << 10;

INSTANTIATE_TEST_SUITE_P(Ways, SharedMemoryEnd, ::testing::ValuesIn(kNodeWays), name_of_way);

/// How the sender ends: by close(), by the end of its process, or by SIGKILL.
enum class Leaving : std::uint8_t { goodbye, exit, death };

void send_and_leave(const NodeOptions& node, Leaving how) {
  constexpr std::uint64_t kMessages = 60;
  // The other process is the sender.
  ServingProcess peer(node, [&](Served& served, const Talk& talk) {
    served.await(talk, 1);
    std::vector<Transfer> sends;
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      overlay(served.bytes(), i * 512, 0, static_cast<unsigned>(i), 1 + i * 7);
      sends.push_back(value(served.endpoint->send(served.slice(i * 512, 1 + i * 7))));
    }
    for (Transfer& send : sends) served.finish(send);
    talk.tell(2);
    if (how == Leaving::goodbye) {
      good(served.endpoint->close(within(10s)));
    } else if (how == Leaving::exit) {
      ::_exit(0);
    } else {
      ::kill(::getpid(), SIGKILL);
    }
  });
  Asking side(peer, node);
  peer.talk().tell(1);
  EXPECT_EQ(peer.talk().hear(), 2U);
  // Messages that were reported as sent have arrived, whatever happened to the sender.
  std::vector<Transfer> receives;
  if (how != Leaving::goodbye) {
    // The endpoint fails when it notices the sender's end, so its receives are posted before.
    for (std::uint64_t i = 0; i < kMessages; ++i)
      receives.push_back(value(side.endpoint.receive(side.slice(i * 512, 512))));
  } else {
    side.poll_until([&] { return side.endpoint.phase() == EndpointPhase::closed; });
  }
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    if (how == Leaving::goodbye)
      receives.push_back(value(side.endpoint.receive(side.slice(i * 512, 512))));
    Transfer& receive = receives[i];
    side.finish(receive);
    ASSERT_EQ(receive.bytes(), 1 + i * 7) << i;
    EXPECT_TRUE(same_bytes(side.bytes().subspan(i * 512, 1 + i * 7),
                           pattern(1 + i * 7, static_cast<unsigned>(i))));
  }
  if (how == Leaving::goodbye) {
    EXPECT_FALSE(side.endpoint.receive(side.slice(0, 512)));
  }
  if (how != Leaving::death) peer.expect_good();
}

TEST_P(SharedMemoryEnd, SentMessagesArriveAfterTheGoodbye) {
  send_and_leave(options(), Leaving::goodbye);
}

TEST_P(SharedMemoryEnd, SentMessagesArriveAfterTheirSendersProcessEnded) {
  send_and_leave(options(), Leaving::exit);
}

TEST_P(SharedMemoryEnd, SentMessagesArriveAfterTheirSendersProcessWasKilled) {
  send_and_leave(options(), Leaving::death);
}

TEST_P(SharedMemoryEnd, AReconnectedEndpointHasNewRings) {
  NodeOptions node = options();
  node.endpoint.peer_timeout = 500ms;
  ServingProcess peer(node, [](Served& served, const Talk& talk) {
    // Each old endpoint still exists while the new one connects.
    std::vector<Endpoint> old;
    for (int round = 0; round < 3; ++round) {
      Transfer receive = value(served.endpoint->receive(served.slice(0, 100)));
      served.finish(receive);
      EXPECT_EQ(receive.bytes(), static_cast<std::uint64_t>(10 + round));
      EXPECT_EQ(receive.path(), Path::shared_memory);
      Transfer send = value(served.endpoint->send(served.slice(0, 50)));
      served.finish(send);
      old.push_back(std::move(*served.endpoint));
      if (round < 2) served.accept();
    }
    talk.tell(1);
    served.poll_for(300ms);
  });
  Asking side(peer, node);
  for (int round = 0; round < 3; ++round) {
    Transfer receive = value(side.endpoint.receive(side.slice(0, 100)));
    Transfer send =
        value(side.endpoint.send(side.slice(0, static_cast<std::uint64_t>(10 + round))));
    side.finish(receive);
    EXPECT_EQ(receive.bytes(), 50U);
    side.finish(send);
    EXPECT_EQ(send.path(), Path::shared_memory);
    if (round == 2) break;
    // The cancel of a transfer in flight may end the endpoint.
    Transfer never = value(side.endpoint.receive(side.slice(0, 100)));
    static_cast<void>(never.cancel());
    side.poll_until([&] { return side.endpoint.phase() != EndpointPhase::ending; });
    if (side.endpoint.phase() == EndpointPhase::ready) good(side.endpoint.close(within(10s)));
    good(side.endpoint.reconnect(within(20s)));
    side.target = value(side.endpoint.remote("target", within(20s)));
    Transfer put = value(side.put(0, 64));
    side.finish(put);
    EXPECT_EQ(put.path(), Path::shared_memory);
  }
  EXPECT_EQ(peer.talk().hear(), 1U);
}

/// A child by fork(2) of either end destroys its copies.
TEST_P(SharedMemoryEnd, AChildOfEitherEndChangesNothing) {
  const NodeOptions node = options();
  const auto forks = [](std::optional<Endpoint>& endpoint, NodeSide& side) {
    OtherProcess child([&](const Talk&) {
      EXPECT_FALSE(endpoint->send(side.slice(0, 8)));
      endpoint.reset();
      const Worker gone = std::move(side.worker);
    });
    child.expect_good();
  };
  ServingProcess peer(node, [&](Served& served, const Talk& talk) {
    served.await(talk, 1);
    forks(served.endpoint, served);
    talk.tell(2);
    for (int i = 0; i < 20; ++i) {
      Transfer receive = value(served.endpoint->receive(served.slice(0, 64)));
      served.finish(receive);
      Transfer send = value(served.endpoint->send(served.slice(0, 64)));
      served.finish(send);
    }
    served.serve();
  });
  Asking side(peer, node);
  std::optional<Endpoint> endpoint = std::move(side.endpoint);
  peer.talk().tell(1);
  forks(endpoint, side);
  EXPECT_EQ(peer.talk().hear(), 2U);
  for (int i = 0; i < 20; ++i) {
    Transfer put = value(endpoint->put(side.slice(0, 20'000), side.target.slice(0, 20'000)));
    side.finish(put);
    EXPECT_EQ(put.path(), Path::shared_memory);
    Transfer receive = value(endpoint->receive(side.slice(64, 64)));
    Transfer send = value(endpoint->send(side.slice(0, 64)));
    side.finish(send);
    side.finish(receive);
    EXPECT_EQ(receive.path(), Path::shared_memory);
  }
  good(endpoint->close(within(10s)));
  peer.expect_good();
}

// --- keys that end

/// The peer's memory is read and written while the peer revokes its key.
TEST_P(SharedMemoryEnd, ARevokedKeyEndsCopiesOfSixtyFourMegabytes) {
  NodeOptions node = options();
  node.bytes = 64 << 20;
  node.revocable = true;
  ServingProcess peer(node, [](Served& served, const Talk& talk) {
    served.await(talk, 1);
    // Four pieces of the put have already been written.
    while (served.bytes()[4 * kPiece] != std::byte{0xee}) served.worker.progress();
    good(served.listener.withdraw("target"));
    const std::vector<std::byte> now(served.bytes().begin(), served.bytes().end());
    EXPECT_EQ(now.back(), std::byte{0}) << "the key was withdrawn too late, after the last byte";
    talk.tell(2);
    served.poll_for(200ms);
    EXPECT_TRUE(same_bytes(served.bytes(), now));
    talk.tell(3);
    served.serve();
  });
  Asking side(peer, node);
  std::memset(side.bytes().data(), 0xee, side.bytes().size());
  peer.talk().tell(1);
  Transfer put = value(side.put(0, node.bytes));
  Transfer next = value(side.put(0, 100'000));
  Transfer get = value(side.get(0, node.bytes));
  side.poll_until([&] { return put.done() && next.done() && get.done(); });
  for (Transfer* const each : {&put, &next, &get}) {
    const auto over = each->poll();
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, Errc::permission_denied) << describe(over.error());
    EXPECT_TRUE(each->settled());
  }
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready) << "each fails alone";
  EXPECT_EQ(peer.talk().hear(), 2U);
  Transfer late = value(side.put(0, 8));
  EXPECT_FALSE(side.poll_until([&] { return late.done(); }) && late.poll());
  EXPECT_EQ(peer.talk().hear(), 3U);
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

// --- peers that stop or die

TEST_P(SharedMemoryEnd, AStoppedPeerIsNotNeededByPutsAndGets) {
  NodeOptions node = options();
  node.endpoint.peer_timeout = 400ms;
  const ServingProcess peer(node, [](Served& served, const Talk& talk) {
    Transfer receive = value(served.endpoint->receive(served.slice(0, 64)));
    talk.tell(1);
    served.finish(receive);
    EXPECT_EQ(receive.bytes(), 33U);
    talk.tell(2);
    served.serve();
  });
  Asking side(peer, node);
  side.fill(4);
  EXPECT_EQ(peer.talk().hear(), 1U);
  side.poll_for(100ms);
  peer.stop();
  for (const std::uint64_t length : {8U, 20'000U, 1'000'000U}) {
    Transfer put = value(side.put(64, length));
    side.finish(put);
    Transfer get = value(side.endpoint.get(side.slice(64, length), side.target.slice(64, length)));
    side.finish(get);
  }
  EXPECT_TRUE(same_bytes(side.bytes(), pattern(node.bytes, 4)));
  Transfer send = value(side.endpoint.send(side.slice(0, 33), {.level = CompletionLevel::arrived}));
  side.poll_for(1200ms);
  EXPECT_FALSE(send.done());
  // The peer's process is stopped, but its machine still answers, so the endpoint stays ready.
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready)
      << describe(side.endpoint.error().value_or(Error{}));
  peer.go_on();
  side.finish(send);
  EXPECT_EQ(peer.talk().hear(), 2U);
}

/// The peer may have stopped within a copy. Revoking the key then waits until its limit, and
/// reports that.
TEST_P(SharedMemoryEnd, AKeyEndsInTimeWhenTheCopyingProcessIsStopped) {
  NodeOptions node = options();
  node.bytes = 64 << 20;
  node.endpoint.peer_timeout = 400ms;
  // This end has the memory and listens. The peer copies without a pause.
  OtherProcess peer([&](const Talk& talk) {
    set_log_sink([](LogLevel, std::string_view) {});
    Asking side("127.0.0.1:" + std::to_string(talk.hear()), node);
    std::memset(side.bytes().data(), 0xee, side.bytes().size());
    talk.tell(1);
    for (;;) {
      Transfer put = value(side.put(0, node.bytes));
      while (!put.done()) side.worker.progress();
      if (!put.poll()) break;
    }
    talk.tell(2);
    for (;;) side.worker.progress();
  });
  NodeSide own(node);
  Listener listener =
      value(Listener::create(own.worker, {.address = "127.0.0.1", .endpoint = node.endpoint}));
  int timed_out = 0;
  good(listener.advertise("target", own.region, {.revocable = true}));
  peer.talk().tell(listener.port());
  const Endpoint endpoint = value(listener.accept(within(20s)));
  while (!peer.talk().can_hear()) own.worker.progress();  // answers the question for "target"
  EXPECT_EQ(peer.talk().hear(), 1U);
  own.poll_until([&] { return own.bytes()[node.bytes / 2] == std::byte{0xee}; });
  peer.stop();
  const auto begun = Clock::now();
  const auto ended = listener.withdraw("target");
  const auto took = Clock::now() - begun;
  EXPECT_LT(took, 400ms + kNodeSlack);
  if (!ended) {
    ++timed_out;
    EXPECT_EQ(ended.error().code, Errc::timed_out) << describe(ended.error());
    EXPECT_EQ(ended.error().hint, Hint::peer_unsettled);
    EXPECT_GE(took, 400ms);
  }
  std::memset(own.bytes().data(), 0, own.bytes().size());
  peer.go_on();
  EXPECT_EQ(peer.talk().hear(), 2U) << "the peer's put fails";
  // After the memset above, a copy during which the peer was stopped writes the rest of its piece.
  const auto written =
      std::ranges::count_if(own.bytes(), [](std::byte b) { return b != std::byte{0}; });
  EXPECT_LE(written, timed_out != 0 ? static_cast<std::int64_t>(kPiece) : 0);
}

/// A receiver that is stopped in the middle of a copy still holds the memory of a large message,
/// although the send has ended.
TEST_P(SharedMemoryEnd, ARegionEndsInTimeWhenItsReaderIsStopped) {
  constexpr std::uint64_t kLength = 64 << 20;
  NodeOptions node = options();
  node.bytes = kLength;
  node.endpoint.peer_timeout = 400ms;
  ServingProcess peer(node, [](Served& served, const Talk& talk) {
    Transfer receive = value(served.endpoint->receive(served.slice(0, kLength)));
    served.await(talk, 1);
    std::memset(served.bytes().data(), 0xee, served.bytes().size());
    talk.tell(2);
    served.poll_until([&] { return receive.done(); });
    talk.tell(3);
    for (;;) served.worker.progress();
  });
  Asking side(peer, node);
  peer.talk().tell(1);
  EXPECT_EQ(peer.talk().hear(), 2U);
  {
    const Allocation memory = value(side.context.allocate(
        MemoryType::host, kLength, {.device = {}, .host = {.shared = GetParam().shared}}));
    std::optional<Region> region = value(side.context.register_memory(memory, kAll));
    Transfer send = value(side.endpoint.send(region->slice(0, kLength)));
    side.poll_for(8ms);
    peer.stop();
    const auto cancelled = send.cancel();
    EXPECT_TRUE(cancelled || cancelled.error().hint == Hint::peer_unsettled)
        << describe(cancelled.error());
    send.reset();
    const auto begun = Clock::now();
    region.reset();
    EXPECT_LT(Clock::now() - begun, 400ms + kNodeSlack);
  }
  // The peer's receive ends, in success or failure, when its process goes on.
  peer.go_on();
  EXPECT_EQ(peer.talk().hear(), 3U);
  side.poll_until([&] { return side.endpoint.phase() != EndpointPhase::ending; });
}

/// If the application has unmapped memory, only the transfers that use it fail.
TEST_P(SharedMemoryEnd, MemoryThatIsGoneFailsItsTransfersAlone) {
  ServingProcess peer(options());
  Asking side(peer, options());
  constexpr std::uint64_t kLeft = 65'536;  // bytes that stay
  for (const auto how : {LentMemory::How::unmapped, LentMemory::How::truncated}) {
    const LentMemory lent(1 << 20);
    const Region region = value(side.context.register_memory(lent.data(), lent.size_bytes(), kAll));
    std::ranges::fill(lent.bytes(), std::byte{7});
    lent.take_away(how, kLeft);
    for (const std::uint64_t length : {64U, 16'384U, 600'000U}) {
      // A range from the beginning, and one across the border of the missing part.
      for (const std::uint64_t offset : {std::uint64_t{0}, kLeft - length / 2}) {
        if (offset > kLeft) continue;  // wrapped: half of the length is more than kLeft
        const bool is_there = offset + length <= kLeft;
        for (const bool gets : {false, true}) {
          const Slice here = region.slice(offset, length);
          const RemoteSlice there = side.target.slice(0, length);
          Transfer each =
              value(gets ? side.endpoint.get(here, there) : side.endpoint.put(here, there));
          EXPECT_TRUE(side.poll_until([&] { return each.done(); }));
          const auto over = each.poll();
          EXPECT_EQ(over.has_value(), is_there) << length << " from " << offset;
          if (!over) {
            EXPECT_EQ(over.error().hint, Hint::memory_gone) << describe(over.error());
            EXPECT_TRUE(each.settled());
          }
          EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
        }
      }
    }
  }
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

/// The receiver copies from memory that the sender's program has unmapped, or into its own memory
/// that is unmapped.
TEST_P(SharedMemoryEnd, ALargeMessageOfMemoryThatIsGoneFailsAlone) {
  ServingProcess peer(options(), [](Served& served, const Talk& talk) {
    const LentMemory lent(1 << 20);
    const Region region =
        value(served.context.register_memory(lent.data(), lent.size_bytes(), kAll));
    lent.take_away(LentMemory::How::unmapped);
    // First a message from missing memory of the sender, then one into missing memory of the
    // receiver.
    for (const bool own : {false, true}) {
      Transfer receive = value(
          served.endpoint->receive(own ? region.slice(0, 600'000) : served.slice(0, 600'000)));
      EXPECT_TRUE(served.poll_until([&] { return receive.done(); }));
      const auto over = receive.poll();
      ASSERT_FALSE(over);
      EXPECT_EQ(over.error().hint, Hint::memory_gone) << describe(over.error());
    }
    EXPECT_EQ(served.endpoint->phase(), EndpointPhase::ready);
    talk.tell(1);
    Transfer last = value(served.endpoint->receive(served.slice(0, 64)));
    served.finish(last);
    served.serve();
  });
  Asking side(peer, options());
  const LentMemory lent(1 << 20);
  const Region region = value(side.context.register_memory(lent.data(), lent.size_bytes(), kAll));
  lent.take_away(LentMemory::How::unmapped);
  for (const bool own : {true, false}) {
    Transfer send =
        value(side.endpoint.send(own ? region.slice(0, 600'000) : side.slice(0, 600'000)));
    EXPECT_TRUE(side.poll_until([&] { return send.done(); }));
    EXPECT_FALSE(send.poll());
    EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
  }
  EXPECT_EQ(peer.talk().hear(), 1U);
  Transfer last = value(side.endpoint.send(side.slice(0, 8)));
  side.finish(last);
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

}  // namespace
}  // namespace hbmwire::test
