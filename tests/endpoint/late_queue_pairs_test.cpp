// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "hbmwire/memory_key.hpp"

#include "internals.hpp"
#include "shared_memory_side.hpp"
#include "tests/library/emulated_hooks.hpp"
#include "wire/control_messages.hpp"
#include "wire/endpoint_offer.hpp"

/// Two processes of a node make queue pairs only when they need them.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kDeviceBytes = 1 << 20;

std::size_t queue_pairs(const NodeSide& side) {
  return internals::look_at_endpoint(side.worker).queue_pairs;
}

/// A server that also has device memory "device", filled with pattern 7. Sends 1 when that is
/// advertised, and its largest number of queue pairs when the peer has closed.
void serve_device(Served& served, const Talk& talk) {
  Memory device(served.context, MemoryType::gaudi, kDeviceBytes);
  device.fill(7);
  good(served.listener.advertise("device", device.region()));
  talk.tell(1);
  std::size_t most = 0;
  while (served.endpoint->phase() == EndpointPhase::ready) {
    served.poll_for(100us);
    most = std::max(most, queue_pairs(served));
  }
  talk.tell(most);
}

class LateQueuePairs : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([](LogLevel, std::string_view) {});
  }

  void TearDown() override {
    set_log_sink({});
    fail_nic_calls(nullptr, 0);
  }

  static RemoteRegion device_of(Asking& side) {
    return value(side.endpoint.remote("device", within(20s)));
  }
};

TEST_F(LateQueuePairs, AreNotMadeForHostMemoryAndMessages) {
  ServingProcess peer({}, [](Served& served, const Talk& talk) {
    for (const std::uint64_t length : {0U, 8U, 6000U, 100'000U}) {
      Transfer receive = value(served.endpoint->receive(served.slice(0, length)));
      served.finish(receive);
      Transfer send = value(served.endpoint->send(served.slice(0, length)));
      served.finish(send);
    }
    Transfer immediate = value(served.endpoint->receive_immediate());
    served.finish(immediate);
    EXPECT_EQ(queue_pairs(served), 0U);
    talk.tell(1);
    served.serve();
  });
  Asking side(peer);
  for (const std::uint64_t length : {0U, 8U, 6000U, 100'000U}) {
    Transfer send = value(side.endpoint.send(side.slice(0, length)));
    side.finish(send);
    Transfer receive = value(side.endpoint.receive(side.slice(0, length)));
    side.finish(receive);
    Transfer put = value(side.put(0, length));
    Transfer get = value(side.get(0, length));
    side.finish(put);
    side.finish(get);
    Transfer flush = value(side.endpoint.flush());
    side.finish(flush);
  }
  Transfer put = value(side.put(0, 8, {.immediate = 3}));
  side.finish(put);
  EXPECT_EQ(peer.talk().hear(), 1U);
  EXPECT_EQ(queue_pairs(side), 0U);
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

TEST_F(LateQueuePairs, AreMadeAtOnceWherePoliciesExcludeSharedMemory) {
  ServingProcess peer({.paths = {.require = Path::zero_copy}});
  const Asking side(peer);
  EXPECT_EQ(queue_pairs(side), 2U);
}

TEST_F(LateQueuePairs, AreMadeForMemoryOfDevices) {
  ServingProcess peer({}, serve_device);
  Asking side(peer);
  EXPECT_EQ(queue_pairs(side), 0U);
  EXPECT_EQ(peer.talk().hear(), 1U);
  const RemoteRegion device = device_of(side);
  std::vector<Transfer> all;
  // The bytes of the put: pattern 5.
  overlay(side.bytes(), 0, 0, 5, 4096);
  all.push_back(value(side.endpoint.put(side.slice(0, 4096), device.slice(100, 4096))));
  all.push_back(value(side.endpoint.get(side.slice(8192, 4096), device.slice(100, 4096))));
  all.push_back(
      value(side.endpoint.get(side.slice(100'000, 500'000), device.slice(100'000, 500'000))));
  // Puts by shared memory need not wait for the queue pairs, but still keep their order.
  all.push_back(value(side.put(0, 8)));
  all.push_back(value(side.endpoint.flush()));
  for (Transfer& transfer : all) side.finish(transfer);
  EXPECT_EQ(all[0].path(), Path::nic_loopback) << describe(all[0].explain());
  EXPECT_EQ(all[3].path(), Path::shared_memory);
  EXPECT_TRUE(same_bytes(side.bytes().subspan(8192, 4096), side.bytes().subspan(0, 4096)));
  const auto theirs = pattern(kDeviceBytes, 7);
  EXPECT_TRUE(same_bytes(side.bytes().subspan(100'000, 500'000),
                         std::span<const std::byte>(theirs).subspan(100'000, 500'000)));
  EXPECT_EQ(queue_pairs(side), 1U);
  good(side.endpoint.close(within(10s)));
  EXPECT_EQ(peer.talk().hear(), 1U);
  peer.expect_good();
}

/// The list is prepared before there is a queue pair.
TEST_F(LateQueuePairs, AreMadeForListsAndAtomics) {
  ServingProcess peer({}, serve_device);
  Asking side(peer);
  EXPECT_EQ(peer.talk().hear(), 1U);
  const RemoteRegion device = device_of(side);
  // The list and the atomic are started before the peer has answered the request for queue pairs.
  std::vector<Transfer> all;
  const std::vector<TransferPart> parts{{side.slice(0, 64), device.slice(0, 64)},
                                        {side.slice(64, 64), device.slice(4096, 64)}};
  PreparedTransfer list = value(side.endpoint.prepare_put(parts));
  all.push_back(value(list.post()));
  all.push_back(value(side.endpoint.fetch_add(side.target.slice(0, 8), 5)));
  for (Transfer& transfer : all) side.finish(transfer);
  EXPECT_EQ(queue_pairs(side), 1U);
}

/// Each end asks the other one, and treats the other's question as the answer.
class LateQueuePairsAgain : public LateQueuePairs, public ::testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(Rounds, LateQueuePairsAgain, ::testing::Range(0, 5));

TEST_P(LateQueuePairsAgain, AreMadeWhenBothEndsNeedThemAtOnce) {
  ServingProcess peer({}, [](Served& served, const Talk& talk) {
    Memory device(served.context, MemoryType::gaudi, kDeviceBytes);
    good(served.listener.advertise("device", device.region()));
    talk.tell(1);
    Transfer receive = value(served.endpoint->receive(served.slice(0, 1024)));
    served.finish(receive);
    const auto key = std::span<const std::byte>(served.bytes()).first(receive.bytes());
    const RemoteRegion theirs = value(served.endpoint->remote(key));
    Transfer put = value(served.endpoint->put(device.slice(0, 4096), theirs.slice(0, 4096)));
    served.finish(put);
    EXPECT_EQ(put.path(), Path::nic_loopback);
    talk.tell(2);
    served.serve();
    EXPECT_EQ(queue_pairs(served), 1U);
  });
  Asking side(peer);
  EXPECT_EQ(peer.talk().hear(), 1U);
  const RemoteRegion device = device_of(side);
  const MemoryKey key = value(MemoryKey::pack(side.region));
  std::ranges::copy(key.bytes(), side.bytes().begin());
  Transfer send = value(side.endpoint.send(side.slice(0, key.bytes().size())));
  side.finish(send);
  Transfer put = value(side.endpoint.put(side.slice(0, 4096), device.slice(0, 4096)));
  side.finish(put);
  side.poll_until([&] { return peer.talk().can_hear(); });
  EXPECT_EQ(peer.talk().hear(), 2U);
  EXPECT_EQ(queue_pairs(side), 1U);
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

class LateQueuePairsOfOneEnd : public LateQueuePairs, public ::testing::WithParamInterface<bool> {};

INSTANTIATE_TEST_SUITE_P(Ends, LateQueuePairsOfOneEnd, ::testing::Bool());

TEST_P(LateQueuePairsOfOneEnd, AQueuePairThatCanNotBeMadeEndsTheEndpointWithTheReason) {
  const bool here = GetParam();
  ServingProcess peer({}, [here](Served& served, const Talk& talk) {
    Memory device(served.context, MemoryType::gaudi, kDeviceBytes);
    if (!here) fail_nic_calls("ibv_create_qp", ENOMEM);
    good(served.listener.advertise("device", device.region()));
    talk.tell(1);
    served.poll_until([&] { return served.endpoint->phase() == EndpointPhase::failed; });
    const Hint why = served.endpoint->error()->hint;
    EXPECT_EQ(why, here ? Hint::peer_broke_off : Hint::queue_pair_limit);
  });
  Asking side(peer);
  EXPECT_EQ(peer.talk().hear(), 1U);
  if (here) fail_nic_calls("ibv_create_qp", ENOMEM);
  static_cast<void>(side.endpoint.remote("device", within(20s)));
  side.poll_until([&] { return side.endpoint.phase() == EndpointPhase::failed; });
  const Error why = side.endpoint.error().value();
  EXPECT_EQ(why.code, here ? Errc::exhausted : Errc::peer_failed) << describe(why);
  EXPECT_EQ(why.hint, here ? Hint::queue_pair_limit : Hint::peer_broke_off) << describe(why);
  fail_nic_calls(nullptr, 0);
  peer.expect_good();
}

/// The peer is stopped. A transfer that needs the queue pairs waits for it, and ends in time.
TEST_F(LateQueuePairs, AStoppedPeerIsAwaitedUntilTheDeadline) {
  NodeOptions node;
  node.endpoint.peer_timeout = 400ms;
  ServingProcess peer(node, serve_device);
  Asking side(peer, node);
  EXPECT_EQ(peer.talk().hear(), 1U);
  peer.stop();
  Transfer atomic = value(side.endpoint.fetch_add(side.target.slice(0, 8), 1));
  Transfer shared = value(side.put(64, 8));
  const auto begun = Clock::now();
  const auto over = atomic.wait(within(300ms));
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::timed_out) << describe(over.error());
  EXPECT_LT(Clock::now() - begun, 300ms + 400ms + kNodeSlack);
  peer.go_on();
}

TEST_F(LateQueuePairs, AStoppedPeerMakesItsQueuePairWhenItGoesOn) {
  ServingProcess peer({}, serve_device);
  Asking side(peer);
  EXPECT_EQ(peer.talk().hear(), 1U);
  peer.stop();
  Transfer atomic = value(side.endpoint.fetch_add(side.target.slice(0, 8), 1));
  side.poll_for(50ms);
  EXPECT_FALSE(atomic.done());
  peer.go_on();
  side.finish(atomic);
  good(side.endpoint.close(within(10s)));
  EXPECT_EQ(peer.talk().hear(), 1U);
  peer.expect_good();
}

/// The peer is killed at each moment of the exchange of messages about queue pairs.
TEST_F(LateQueuePairs, WaitingForAKilledPeersQueuePairEndsInTime) {
  const Nursery nursery({}, [](Served& served, unsigned /*seed*/) {
    for (;;) served.worker.progress();
  });
  NodeSide side{NodeOptions{}};
  for (unsigned round = 0; round < 40; ++round) {
    const auto peer = nursery.make(round);
    Endpoint endpoint = value(Endpoint::connect(side.worker, peer.address, within(20s)));
    const RemoteRegion target = value(endpoint.remote("target", within(20s)));
    Transfer atomic = value(endpoint.fetch_add(target.slice(0, 8), 1));
    side.poll_for(std::chrono::microseconds(round * 20));
    ::kill(peer.id, SIGKILL);
    const auto begun = Clock::now();
    const auto over = atomic.wait(within(20s));
    EXPECT_TRUE(over || over.error().code == Errc::peer_failed) << describe(over.error());
    side.poll_until([&] { return endpoint.phase() != EndpointPhase::ready; });
    EXPECT_LT(Clock::now() - begun, 5s + kNodeSlack);
  }
}

/// The peer says goodbye without an answer to the request for queue pairs. No transfer needs them,
/// so the endpoint is closed, not failed.
TEST_F(LateQueuePairs, UnneededQueuePairsDoNotTurnAGoodbyeIntoAFailure) {
  ServingProcess peer({}, [](Served& served, const Talk& talk) {
    Memory device(served.context, MemoryType::gaudi, kDeviceBytes);
    served.await(talk, 1);
    const MemoryKey key = value(MemoryKey::pack(device.region()));
    talk.tell_bytes(key.bytes());
    EXPECT_EQ(talk.hear(), 2U);
    served.endpoint.reset();  // without reading the request for queue pairs
    served.poll_until([&] { return talk.can_hear(); });
  });
  Asking side(peer);
  peer.talk().tell(1);
  const auto key = peer.talk().hear_bytes();
  static_cast<void>(value(side.endpoint.remote(key)));
  EXPECT_EQ(queue_pairs(side), 1U);
  peer.talk().tell(2);
  side.poll_until([&] { return side.endpoint.phase() == EndpointPhase::closed; });
  EXPECT_FALSE(side.endpoint.error());
  peer.talk().tell(3);
  peer.expect_good();
}

/// The invalid message about queue pairs that the peer sends.
enum Word : std::uint8_t { nothing, its_late_offer, another_process, ready_unasked, twice, kWords };

class LateQueuePairsOfALiar : public LateQueuePairs, public ::testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(Words, LateQueuePairsOfALiar, ::testing::Range<int>(nothing, kWords));

TEST_P(LateQueuePairsOfALiar, AnInvalidMessageAboutThemEndsTheEndpoint) {
  const int word = GetParam();
  ServingProcess peer({}, [word](Served& served, const Talk& talk) {
    const auto say_pairs = [&](std::vector<std::byte> offer) {
      internals::say(served.worker, wire::encode(wire::QueuePairs{std::move(offer)}));
    };
    served.await(talk, 1);
    auto offer = value(wire::decode_offer(internals::offer(served.worker)));
    const auto late = wire::encode(offer);  // without a queue pair, as a late end offers
    offer.data.queue_pair = 77;
    if (word == another_process) ++offer.data.incarnation;
    offer.control.incarnation = offer.data.incarnation;
    if (word == nothing) say_pairs({});
    if (word == its_late_offer) say_pairs(late);
    if (word == another_process || word == twice) say_pairs(wire::encode(offer));
    if (word == ready_unasked) internals::say(served.worker, wire::encode(wire::QueuePairsReady{}));
    if (word == twice) say_pairs(wire::encode(offer));
    served.serve();
  });
  Asking side(peer);
  peer.talk().tell(1);
  side.poll_until([&] { return side.endpoint.phase() == EndpointPhase::failed; });
  EXPECT_EQ(side.endpoint.error().value().code, Errc::protocol)
      << word << describe(side.endpoint.error().value());
  peer.expect_good();
}

/// This end sends more control messages than the peer has receives, before the peer looks.
TEST_F(LateQueuePairs, LeaveRoomForManyControlMessagesAtOnce) {
  ServingProcess peer({}, [](Served& served, const Talk& talk) {
    EXPECT_EQ(talk.hear(), 1U);
    served.serve();
    EXPECT_EQ(served.endpoint->phase(), EndpointPhase::closed);
  });
  NodeSide side{NodeOptions{}};
  Endpoint endpoint = value(Endpoint::connect(side.worker, peer.address(), within(20s)));
  for (std::uint32_t i = 0; i < 40; ++i) {
    // An answer without a question is ignored.
    internals::say(side.worker, wire::encode(wire::Found{.id = i, .key = {}}));
    side.poll_for(1ms);
  }
  peer.talk().tell(1);
  good(endpoint.close(within(10s)));
  peer.expect_good();
}

/// An immediate without bytes goes through shared memory, like a put with bytes.
TEST_F(LateQueuePairs, AreNotMadeForAnImmediateAlone) {
  ServingProcess peer({}, [](Served& served, const Talk&) {
    Transfer immediate = value(served.endpoint->receive_immediate());
    served.finish(immediate);
    EXPECT_EQ(immediate.value(), 9U);
    served.serve();
  });
  Asking side(peer);
  Transfer put = value(side.put(0, 0, {.immediate = 9}));
  side.finish(put);
  good(side.endpoint.close(within(10s)));
  EXPECT_EQ(queue_pairs(side), 0U);
  peer.expect_good();
}

/// A receive that waits for the queue pairs ends by the operation timeout, too.
TEST_F(LateQueuePairs, AReceiveThatWaitsForQueuePairsEndsInTime) {
  NodeOptions node;
  node.endpoint.operation_timeout = 400ms;
  ServingProcess peer({}, [](Served& served, const Talk& talk) {
    Memory device(served.context, MemoryType::gaudi, kDeviceBytes);
    served.await(talk, 1);
    Transfer send = value(served.endpoint->send(device.slice(0, 200'000)));
    talk.tell(2);
    for (;;) ::pause();
  });
  Asking side(peer, node);
  peer.talk().tell(1);
  EXPECT_EQ(peer.talk().hear(), 2U);
  Transfer receive = value(side.endpoint.receive(side.slice(0, 200'000)));
  const auto over = receive.wait(within(20s));
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::timed_out) << describe(over.error());
}

TEST_F(LateQueuePairs, AReconnectedEndpointMakesQueuePairsAgain) {
  ServingProcess peer({}, [](Served& served, const Talk& talk) {
    served.await(talk, 1);
    served.accept();
    served.serve();
  });
  Asking side(peer);
  Transfer first = value(side.endpoint.fetch_add(side.target.slice(0, 8), 1));
  side.finish(first);
  good(side.endpoint.close(within(10s)));
  peer.talk().tell(1);
  good(side.endpoint.reconnect(within(20s)));
  side.target = value(side.endpoint.remote("target", within(20s)));
  EXPECT_EQ(queue_pairs(side), 0U);
  Transfer second = value(side.endpoint.fetch_add(side.target.slice(0, 8), 1));
  side.finish(second);
  EXPECT_EQ(second.value(), 1U);
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

}  // namespace
}  // namespace hbmwire::test
