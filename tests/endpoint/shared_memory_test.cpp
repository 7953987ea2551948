// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "hbmwire/memory_key.hpp"

#include "shared_memory_side.hpp"

/// Host memory, messages and immediates between two processes of a node (docs/adr/0029): their
/// bytes and order. Contents are made by overlay(bytes, offset, from, seed, length).
namespace hbmwire::test {
namespace {

using SharedMemory = NodeWays;

INSTANTIATE_TEST_SUITE_P(Ways, SharedMemory, ::testing::ValuesIn(kNodeWays), name_of_way);

TEST_P(SharedMemory, PutsAndGetsOfEverySize) {
  NodeOptions node = options();
  node.bytes = 4 << 20;
  const ServingProcess peer(node, [](Served& served, const Talk& talk) {
    served.fill(2);
    talk.tell(1);
    while (served.endpoint->phase() == EndpointPhase::ready) {
      served.poll_for(1ms);
    }
    // All bytes that were put, and no others.
    auto expected = pattern(served.region.size_bytes(), 2);
    std::uint64_t offset = 64;
    for (const std::uint64_t length : {1U, 8U, 4095U, 16384U, 16385U, 600'000U, 1'500'000U}) {
      overlay(expected, offset, offset, 1, length);
      offset += length + 64;
    }
    EXPECT_TRUE(same_bytes(served.bytes(), expected));
  });
  Asking side(peer, node);
  EXPECT_EQ(peer.talk().hear(), 1U);
  std::uint64_t offset = 64;
  for (const std::uint64_t length : {1U, 8U, 4095U, 16384U, 16385U, 600'000U, 1'500'000U}) {
    Transfer get = value(side.get(offset, length));
    side.finish(get);
    EXPECT_EQ(get.path(), Path::shared_memory);
    EXPECT_TRUE(
        same_bytes(side.bytes().subspan(offset, length),
                   std::span<const std::byte>(pattern(node.bytes, 2)).subspan(offset, length)));
    overlay(side.bytes(), offset, offset, 1, length);
    Transfer put = value(side.put(offset, length));
    side.finish(put);
    EXPECT_EQ(put.path(), Path::shared_memory);
    EXPECT_EQ(put.bytes(), length);
    offset += length + 64;
  }
  good(side.endpoint.close(within(10s)));
  const_cast<ServingProcess&>(peer).expect_good();  // NOLINT
}

// --- order

/// A step of a stream of operations, which both sides know.
struct Step {
  enum class Kind : std::uint8_t {
    put,
    put_immediate,
    device_put,
    device_put_immediate,
    message,
    large_message,
    device_message,
    get,
    flush,
  };

  Kind kind;
  std::uint64_t offset;  // its own place in all memories
  std::uint64_t length;

  [[nodiscard]] bool puts() const { return kind <= Kind::device_put_immediate; }

  [[nodiscard]] bool of_device() const {
    return kind == Kind::device_put || kind == Kind::device_put_immediate ||
           kind == Kind::device_message;
  }

  [[nodiscard]] bool has_immediate() const {
    return kind == Kind::put_immediate || kind == Kind::device_put_immediate;
  }

  [[nodiscard]] bool is_message() const {
    return kind == Kind::message || kind == Kind::large_message || kind == Kind::device_message;
  }

  /// Whether its arrival shows that everything before it has arrived.
  [[nodiscard]] bool is_sign() const { return has_immediate() || kind == Kind::message; }
};

constexpr std::uint64_t kStreamBytes = 12 << 20;
constexpr unsigned kHostSeed = 11;
constexpr unsigned kDeviceSeed = 13;

std::vector<Step> steps_of(unsigned seed, std::size_t count) {
  std::mt19937 random(seed);
  std::vector<Step> steps;
  std::uint64_t offset = 0;
  while (steps.size() < count) {
    auto kind = static_cast<Step::Kind>(random() % 9);
    // Flushes are rarer than other steps.
    if (kind == Step::Kind::flush && random() % 4 != 0) kind = Step::Kind::put;
    std::uint64_t length = 1 + random() % 3000;
    if (kind == Step::Kind::large_message) length = 12'300 + random() % 40'000;
    if (Step{kind, 0, 0}.puts() && random() % 16 == 0) length = 20'000 + random() % 100'000;
    steps.push_back({kind, offset, length});
    offset += length + random() % 64;
  }
  EXPECT_LE(offset, kStreamBytes);
  return steps;
}

/// Receives the stream, and checks that everything started before a sign has arrived with it. Needs
/// a process of its own, which it ends after a failure.
class StreamWatcher {
 public:
  StreamWatcher(NodeSide& side, Endpoint& endpoint, const std::vector<Step>& steps)
      : side_(side),
        endpoint_(endpoint),
        steps_(steps),
        into_(value(side.context.allocate(MemoryType::host, kStreamBytes))),
        region_(value(side.context.register_memory(into_, kAll))) {}

  void watch() {
    const Deadline deadline = Deadline::after(60s);
    while (over_ < signs_and_messages()) {
      post();
      const auto done = side_.worker.next_done();
      if (!done) {
        std::this_thread::yield();
        ASSERT_FALSE(deadline.passed()) << over_ << " of " << signs_and_messages();
        continue;
      }
      ASSERT_TRUE(done->result) << describe(done->result.error());
      ++over_;
      --posted_;
      look_at(*done);
      // Receives into memory of this object are still in flight.
      if (::testing::Test::HasFailure()) ::_exit(1);
    }
  }

 private:
  [[nodiscard]] std::size_t signs_and_messages() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        steps_, [](const Step& step) { return step.is_sign() || step.is_message(); }));
  }

  /// Posts receives for the next messages, some of them in advance.
  void post() {
    while (next_ < steps_.size() && posted_ < 24) {
      const Step& step = steps_[next_];
      if (step.is_message()) {
        posted_ += 1;
        value(endpoint_.receive(region_.slice(step.offset, step.length))).notify(next_);
      } else if (step.has_immediate()) {
        posted_ += 1;
        value(endpoint_.receive_immediate()).notify(next_);
      }
      ++next_;
    }
  }

  void look_at(const Done& done) {
    const Step& step = steps_[done.cookie];
    const auto at = static_cast<std::size_t>(done.cookie);
    EXPECT_EQ(done.bytes, step.length) << at;
    EXPECT_EQ(done.value, step.has_immediate() ? at : 0);
    if (step.is_message()) {
      const auto sent = pattern_of(step);
      EXPECT_TRUE(same_bytes(bytes_of(into_, step), sent)) << "message " << at;
    }
    if (!step.is_sign()) return;
    EXPECT_GT(at + 1, last_sign_) << "overtaken by a later one";
    last_sign_ = at + 1;
    // The bytes of earlier puts have arrived, and those that an immediate belongs to.
    for (; seen_ < at || (seen_ == at && step.puts()); ++seen_) {
      const Step& before = steps_[seen_];
      if (!before.puts()) continue;
      ASSERT_TRUE(same_bytes(bytes_of(side_.memory, before), pattern_of(before)))
          << "put " << seen_ << " has not arrived before " << at;
    }
  }

  static std::span<const std::byte> bytes_of(const Allocation& memory, const Step& step) {
    return {std::bit_cast<const std::byte*>(memory.address() + step.offset), step.length};
  }

  std::span<const std::byte> pattern_of(const Step& step) const {
    return std::span(step.of_device() ? device_ : host_).subspan(step.offset, step.length);
  }

  NodeSide& side_;
  Endpoint& endpoint_;
  const std::vector<Step>& steps_;
  Allocation into_;
  Region region_;
  std::vector<std::byte> host_ = pattern(kStreamBytes, kHostSeed);
  std::vector<std::byte> device_ = pattern(kStreamBytes, kDeviceSeed);
  std::size_t next_ = 0;
  std::size_t posted_ = 0;
  std::size_t over_ = 0;
  std::size_t seen_ = 0;
  std::size_t last_sign_ = 0;  // one more than the last sign's index; 0: none yet
};

/// Starts all steps, with a changing limit for those in flight at a time.
void start_steps(NodeSide& side, Endpoint& endpoint, const RemoteRegion& target,
                 const std::vector<Step>& steps, unsigned seed) {
  std::mt19937 random(seed);
  Memory device(side.context, MemoryType::gaudi, kStreamBytes);
  device.fill(kDeviceSeed);
  side.fill(kHostSeed);
  const auto read = value(side.context.allocate(MemoryType::host, kStreamBytes));
  const Region into = value(side.context.register_memory(read, kAll));
  std::deque<Transfer> under_way;
  std::size_t most = 1;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const Slice from = step.of_device() ? device.slice(step.offset, step.length)
                                        : side.slice(step.offset, step.length);
    const RemoteSlice to = target.slice(step.offset, step.length);
    const auto start = [&]() -> Result<Transfer> {
      switch (step.kind) {
        case Step::Kind::put:
        case Step::Kind::device_put:
          return endpoint.put(from, to);
        case Step::Kind::put_immediate:
        case Step::Kind::device_put_immediate:
          return endpoint.put(from, to, {.immediate = static_cast<std::uint32_t>(i)});
        case Step::Kind::message:
        case Step::Kind::large_message:
        case Step::Kind::device_message:
          return endpoint.send(from);
        case Step::Kind::get:
          return endpoint.get(into.slice(step.offset, step.length), to);
        case Step::Kind::flush:
          break;
      }
      return endpoint.flush();
    };
    under_way.push_back(value(start()));
    if (i % 16 == 0) most = 1 + random() % 60;
    while (under_way.size() > most) {
      side.finish(under_way.front());
      under_way.pop_front();
      if (::testing::Test::HasFailure()) return;
    }
  }
  for (Transfer& each : under_way) side.finish(each);
}

TEST_P(SharedMemory, StepsOfAllKindsArriveInTheirOrder) {
  NodeOptions node = options();
  node.bytes = kStreamBytes;
  // The lazy peer begins to poll only when the ring already holds steps.
  for (const bool lazy : {false, true}) {
    const unsigned seed = lazy ? 5 : 3;
    const auto steps = steps_of(seed, 1000);
    // Both ends are in processes of their own, so that nothing is open here when the second
    // round's peer is forked.
    OtherProcess both([&](const Talk&) {
      ServingProcess peer(node, [&](Served& served, const Talk& talk) {
        served.await(talk, 1);
        if (lazy) std::this_thread::sleep_for(20ms);
        StreamWatcher(served, *served.endpoint, steps).watch();
        talk.tell(1);
        served.serve();
      });
      Asking side(peer, node);
      peer.talk().tell(1);
      start_steps(side, side.endpoint, side.target, steps, seed);
      EXPECT_EQ(peer.talk().hear(), 1U);
      good(side.endpoint.close(within(10s)));
      peer.expect_good();
    });
    both.expect_good();
  }
}

/// Endpoints by invitation have no socket to wake the peer, so the NIC carries messages and
/// immediates.
TEST(SharedMemoryOrder, HoldsForEndpointsByInvitation) {
  const auto steps = steps_of(7, 1000);
  NodeOptions node;
  node.bytes = kStreamBytes;
  OtherProcess peer([&](const Talk& talk) {
    set_log_sink([](LogLevel, std::string_view) {});
    NodeSide side(node);
    EndpointInvitation invitation = value(EndpointInvitation::create(side.worker));
    talk.tell_bytes(invitation.bytes());
    Endpoint endpoint = value(invitation.connect(talk.hear_bytes(), within(20s)));
    const MemoryKey key = value(MemoryKey::pack(side.region));
    talk.tell_bytes(key.bytes());
    StreamWatcher(side, endpoint, steps).watch();
    talk.tell(1);
    side.poll_until([&] { return endpoint.phase() != EndpointPhase::ready; });
  });
  set_log_sink([](LogLevel, std::string_view) {});
  NodeSide side(node);
  EndpointInvitation invitation = value(EndpointInvitation::create(side.worker));
  peer.talk().tell_bytes(invitation.bytes());
  Endpoint endpoint = value(invitation.connect(peer.talk().hear_bytes(), within(20s)));
  const RemoteRegion target = value(endpoint.remote(peer.talk().hear_bytes()));
  start_steps(side, endpoint, target, steps, 7);
  Transfer put = value(endpoint.put(side.slice(0, 8), target.slice(0, 8)));
  side.finish(put);
  EXPECT_EQ(put.path(), Path::shared_memory);
  // The NIC tells the receiver the number of bytes that come with an immediate, so the NIC carries
  // these bytes.
  Transfer told = value(endpoint.put(side.slice(0, 8), target.slice(0, 8), {.immediate = 0}));
  side.finish(told);
  EXPECT_EQ(told.path(), Path::host);
  EXPECT_EQ(peer.talk().hear(), 1U);
  good(endpoint.close(within(10s)));
  peer.expect_good();
  set_log_sink({});
}

/// The NIC's completions and the ring are read one after the other. A message in the ring must not
/// overtake an earlier immediate by the NIC.
TEST(SharedMemoryOrder, AMessageByTheRingDoesNotOvertakeAnImmediateByTheNic) {
  constexpr std::uint64_t kRounds = 20'000;
  ServingProcess peer({}, [&](Served& served, const Talk& talk) {
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      Transfer immediate = value(served.endpoint->receive_immediate());
      Transfer message = value(served.endpoint->receive(served.slice(4096, 8)));
      immediate.notify(0);
      message.notify(1);
      std::optional<Done> first;
      while (!first) first = served.worker.next_done();
      ASSERT_EQ(first->cookie, 0U) << "overtaken in round " << round;
      std::optional<Done> second;
      while (!second) second = served.worker.next_done();
      Transfer answer = value(served.endpoint->send(served.slice(0, 0)));
      served.finish(answer);
    }
    talk.tell(1);
    served.serve();
  });
  Asking side(peer);
  Memory device(side.context, MemoryType::gaudi, 4096);
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    Transfer put =
        value(side.endpoint.put(device.slice(0, 8), side.target.slice(0, 8), {.immediate = 7}));
    Transfer send = value(side.endpoint.send(side.slice(0, 8)));
    Transfer answer = value(side.endpoint.receive(side.slice(64, 0)));
    side.finish(answer);
    if (HasFailure()) break;
    side.finish(put);
    side.finish(send);
  }
  if (HasFailure()) return;
  EXPECT_EQ(peer.talk().hear(), 1U);
}

TEST_P(SharedMemory, LargeMessagesComeFromTheSendersMemory) {
  NodeOptions node = options();
  node.bytes = 8 << 20;
  ServingProcess peer(node, [](Served& served, const Talk&) {
    for (unsigned i = 0; i < 30; ++i) {
      const std::uint64_t length = 12'249 + i * 250'001;
      served.fill(99);
      Transfer receive = value(served.endpoint->receive(served.slice(7, length)));
      served.finish(receive);
      EXPECT_EQ(receive.bytes(), length);
      EXPECT_EQ(receive.path(), Path::shared_memory);
      EXPECT_TRUE(same_bytes(served.bytes().subspan(7, length), pattern(length, i)));
    }
    served.serve();
  });
  Asking side(peer, node);
  for (unsigned i = 0; i < 30; ++i) {
    const std::uint64_t length = 12'249 + i * 250'001;
    overlay(side.bytes(), 0, 0, i, length);
    Transfer send = value(side.endpoint.send(side.slice(0, length)));
    side.finish(send);
    EXPECT_EQ(send.path(), Path::shared_memory);
    EXPECT_EQ(send.bytes(), length);
  }
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

// --- a peer that makes no progress

TEST_P(SharedMemory, AFullRingHoldsMessagesBackInTheirOrder) {
  constexpr std::uint64_t kMessages = 300;
  NodeOptions node = options();
  ServingProcess peer(node, [](Served& served, const Talk& talk) {
    served.await(talk, 1);
    EXPECT_EQ(talk.hear(), 2U);  // makes no progress until the sender has filled the ring
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      const std::uint64_t length = i * 97 % 6000;
      Transfer receive = value(served.endpoint->receive(served.slice(0, 8192)));
      served.finish(receive);
      ASSERT_EQ(receive.bytes(), length) << i;
      ASSERT_TRUE(
          same_bytes(served.bytes().first(length), pattern(length, static_cast<unsigned>(i))));
    }
    talk.tell(3);
    served.serve();
  });
  NodeOptions own = node;
  own.bytes = kMessages * 8192;
  Asking side(peer, own);
  peer.talk().tell(1);
  std::vector<Transfer> sends;
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    const std::uint64_t length = i * 97 % 6000;
    overlay(side.bytes(), i * 8192, 0, static_cast<unsigned>(i), length);
    sends.push_back(value(side.endpoint.send(side.slice(i * 8192, length))));
  }
  side.poll_for(300ms);
  EXPECT_TRUE(sends.front().done());
  EXPECT_FALSE(sends.back().done());
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
  peer.talk().tell(2);
  for (Transfer& send : sends) side.finish(send);
  EXPECT_EQ(peer.talk().hear(), 3U);
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

/// More sends than the ring has room for, to a peer that receives nothing any more.
struct FullRing {
  explicit FullRing(const NodeOptions& options)
      : peer(options,
             [](Served& served, const Talk& talk) {
               served.await(talk, 1);
               talk.tell(2);
               for (;;) ::pause();
             }),
        side(peer, options) {
    peer.talk().tell(1);
    EXPECT_EQ(peer.talk().hear(), 2U);
    for (int i = 0; i < 100; ++i) sends.push_back(value(side.endpoint.send(side.slice(0, 6000))));
  }

  ServingProcess peer;
  Asking side;
  std::vector<Transfer> sends;
};

TEST_P(SharedMemory, AMessageThatAFullRingHoldsBackEndsAtItsDeadline) {
  NodeOptions node = options();
  node.endpoint.peer_timeout = 500ms;
  FullRing full(node);
  std::vector<Transfer>& sends = full.sends;
  const auto begun = Clock::now();
  const auto over = sends.back().wait(within(300ms));
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::timed_out) << describe(over.error());
  EXPECT_GE(Clock::now() - begun, 300ms);
  EXPECT_LT(Clock::now() - begun, 300ms + 500ms + kNodeSlack);
  EXPECT_FALSE(sends.back().settled()) << "the peer has said nothing";
  for (Transfer& send : sends) {
    EXPECT_TRUE(send.done());
  }
  EXPECT_TRUE(sends.front().poll()) << "the first message was in the ring";
}

TEST_P(SharedMemory, AFullRingEndsTheEndpointAtTheOperationTimeout) {
  NodeOptions node = options();
  node.endpoint.peer_timeout = 500ms;
  node.endpoint.operation_timeout = 400ms;
  FullRing full(node);
  std::vector<Transfer>& sends = full.sends;
  const auto begun = Clock::now();
  const auto over = sends.back().poll_until(within(20s));
  ASSERT_FALSE(over);
  EXPECT_LT(Clock::now() - begun, 400ms + 500ms + kNodeSlack);
  EXPECT_EQ(full.side.endpoint.phase(), EndpointPhase::failed);
  EXPECT_EQ(full.side.endpoint.error()->code, Errc::timed_out)
      << describe(*full.side.endpoint.error());
}

/// Messages cannot wait elsewhere: there may be more of them than the pools hold.
TEST_P(SharedMemory, MoreUnexpectedMessagesThanThePoolsHoldArriveAll) {
  constexpr std::uint64_t kMessages = 400;
  NodeOptions node = options();
  node.bytes = kMessages * 4096;
  node.endpoint.receive_depth = 512;
  node.endpoint.unexpected_bytes = 16 << 10;
  node.worker.unexpected_bytes = 256 << 10;
  ServingProcess peer(node, [](Served& served, const Talk& talk) {
    served.await(talk, 1);
    // All of them arrive before their receives.
    served.poll_for(300ms);
    std::vector<Transfer> receives(kMessages);
    for (std::uint64_t tag = kMessages; tag-- > 0;) {
      receives[tag] =
          value(served.endpoint->receive(served.slice(tag * 4096, 4096), TagMatch{.tag = tag}));
    }
    for (std::uint64_t tag = 0; tag < kMessages; ++tag) {
      const std::uint64_t length = tag * 131 % 4096;
      served.finish(receives[tag]);
      ASSERT_EQ(receives[tag].bytes(), length);
      ASSERT_EQ(receives[tag].value(), tag);
      ASSERT_TRUE(same_bytes(served.bytes().subspan(tag * 4096, length),
                             pattern(length, static_cast<unsigned>(tag))));
    }
    talk.tell(2);
    served.serve();
  });
  Asking side(peer, node);
  peer.talk().tell(1);
  std::vector<Transfer> sends;
  for (std::uint64_t tag = 0; tag < kMessages; ++tag) {
    const std::uint64_t length = tag * 131 % 4096;
    overlay(side.bytes(), tag * 4096, 0, static_cast<unsigned>(tag), length);
    sends.push_back(value(side.endpoint.send(side.slice(tag * 4096, length), tag)));
  }
  for (Transfer& send : sends) side.finish(send);
  EXPECT_EQ(peer.talk().hear(), 2U);
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

/// However fast the peer sends, the messages set aside for it are bounded. The rest waits at the
/// peer.
TEST_P(SharedMemory, UnexpectedMessagesWaitWithTheirSenderWhenAllPlacesAreTaken) {
  constexpr std::uint64_t kMessages = 2000;
  constexpr std::uint64_t kLength = 1000;
  NodeOptions node = options();
  node.endpoint.receive_depth = 16;
  node.endpoint.unexpected_bytes = 16 << 10;
  ServingProcess peer(node, [&](Served& served, const Talk& talk) {
    // Until then it polls, but posts no receives.
    served.await(talk, 1);
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      Transfer receive = value(served.endpoint->receive(served.slice(0, kLength)));
      served.finish(receive);
      ASSERT_EQ(receive.bytes(), std::uint64_t{kLength});
      ASSERT_EQ(std::to_integer<std::uint64_t>(served.bytes()[0]), i % 251);
    }
    talk.tell(2);
    served.serve();
  });
  NodeOptions own = node;
  own.bytes = kMessages * kLength;
  Asking side(peer, own);
  std::vector<Transfer> sends;
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    side.bytes()[i * kLength] = static_cast<std::byte>(i % 251);
    sends.push_back(value(side.endpoint.send(side.slice(i * kLength, kLength))));
  }
  side.poll_for(500ms);
  const auto gone = std::ranges::count_if(sends, [](const Transfer& send) { return send.done(); });
  // Messages that are gone: receive_depth (16), those that unexpected_bytes holds (16), those in
  // the ring (28), and some more.
  EXPECT_GE(gone, 16);
  EXPECT_LE(gone, 16 + 16 + 28 + 10);
  peer.talk().tell(1);
  for (Transfer& send : sends) side.finish(send);
  EXPECT_EQ(peer.talk().hear(), 2U);
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

/// Messages that are handed out leave the ring, which goes on carrying others.
TEST_P(SharedMemory, MessagesThatAreHandedOutStayUntilTheyAreLetGo) {
  constexpr std::uint64_t kMessages = 200;  // fewer than a worker's receives
  NodeOptions node = options();
  const auto length_of = [](std::uint64_t i) { return i % 10 == 9 ? 20'000 + i : i * 83 % 5000; };
  NodeOptions theirs = node;
  theirs.endpoint.messages = MessageMode::handed_out;
  theirs.endpoint.receive_depth = 512;
  ServingProcess peer(theirs, [&](Served& served, const Talk& talk) {
    std::vector<IncomingMessage> messages;
    served.poll_until([&] {
      while (auto message = served.worker.next_message()) messages.push_back(std::move(*message));
      return messages.size() == kMessages || served.endpoint->phase() != EndpointPhase::ready;
    });
    ASSERT_EQ(messages.size(), kMessages);
    std::mt19937 random(1);
    std::vector<std::uint64_t> order(kMessages);
    for (std::uint64_t i = 0; i < kMessages; ++i) order[i] = i;
    std::ranges::shuffle(order, random);
    for (const std::uint64_t i : order) {
      IncomingMessage& message = messages[i];
      const std::uint64_t length = length_of(i);
      ASSERT_EQ(message.length_bytes(), length);
      ASSERT_EQ(message.is_here(), length < 20'000) << i;
      const auto sent = pattern(length, static_cast<unsigned>(i));
      ASSERT_TRUE(!message.is_here() || same_bytes(message.bytes(), sent)) << i;
      if (message.is_here() && i % 2 == 0) {
        message.reset();
        continue;
      }
      Transfer receive = value(message.receive(served.slice(0, length)));
      served.finish(receive);
      ASSERT_TRUE(same_bytes(served.bytes().first(length), sent)) << i;
    }
    talk.tell(1);
    served.serve();
  });
  NodeOptions own = node;
  own.bytes = kMessages * 20'480;
  Asking side(peer, own);
  std::vector<Transfer> sends;
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    overlay(side.bytes(), i * 20'480, 0, static_cast<unsigned>(i), length_of(i));
    sends.push_back(value(side.endpoint.send(side.slice(i * 20'480, length_of(i)))));
  }
  for (Transfer& send : sends) side.finish(send);
  EXPECT_EQ(peer.talk().hear(), 1U);
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

TEST_P(SharedMemory, AMessageThatIsLongerThanItsReceiveFailsAlone) {
  ServingProcess peer(options(), [](Served& served, const Talk&) {
    served.fill(3);
    for (const std::uint64_t length : {200U, 8000U, 50'000U}) {
      Transfer receive = value(served.endpoint->receive(served.slice(0, length - 1)));
      EXPECT_TRUE(served.poll_until([&] { return receive.done(); }));
      const auto over = receive.poll();
      ASSERT_FALSE(over);
      EXPECT_EQ(over.error().hint, Hint::message_truncated) << describe(over.error());
      EXPECT_EQ(receive.bytes(), length);
    }
    EXPECT_TRUE(same_bytes(served.bytes(), pattern(served.region.size_bytes(), 3)));
    Transfer last = value(served.endpoint->receive(served.slice(0, 64)));
    served.finish(last);
    EXPECT_EQ(last.bytes(), 33U);
    served.serve();
  });
  Asking side(peer, options());
  for (const std::uint64_t length : {200U, 8000U, 50'000U}) {
    Transfer send =
        value(side.endpoint.send(side.slice(0, length), {.level = CompletionLevel::arrived}));
    EXPECT_TRUE(side.poll_until([&] { return send.done(); }));
    const auto over = send.poll();
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().hint, Hint::message_truncated) << describe(over.error());
  }
  Transfer last = value(side.endpoint.send(side.slice(0, 33)));
  side.finish(last);
  good(side.endpoint.close(within(10s)));
  peer.expect_good();
}

/// Threads of both ends send at once, each with its own tags.
TEST_P(SharedMemory, ThreadsOfBothEndsSendAtOnce) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::uint64_t kRounds = 300;
#else
  constexpr std::uint64_t kRounds = 2000;
#endif
  constexpr std::uint64_t kThreads = 3;
  NodeOptions node = options();
  node.worker.progress_thread = true;
  const auto talks = [](Endpoint& endpoint, NodeSide& side, bool asks) {
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint64_t round = 0; round < kRounds; ++round) {
          // Each thread has 128 KiB: one half to send from, one to receive into.
          const std::uint64_t length = round % 50 == 49 ? 30'000 : 8 + round % 500;
          const Slice out = side.slice(t * 131'072, length);
          Transfer in = value(endpoint.receive(side.slice(t * 131'072 + 65'536, 65'536),
                                               TagMatch{.tag = t * kRounds + round}));
          const auto send = [&] {
            std::memcpy(&side.bytes()[t * 131'072], &round, sizeof round);
            Transfer word = value(endpoint.send(out, t * kRounds + round));
            good(word.wait(within(60s)));
          };
          if (asks) send();
          good(in.wait(within(60s)));
          std::uint64_t told = 0;
          std::memcpy(&told, &side.bytes()[t * 131'072 + 65'536], sizeof told);
          ASSERT_EQ(told, round);
          ASSERT_EQ(in.bytes(), length);
          if (!asks) send();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  ServingProcess peer(node, [&](Served& served, const Talk& talk) {
    talks(*served.endpoint, served, false);
    talk.tell(1);
    static_cast<void>(talk.hear());
  });
  Asking side(peer, node);
  talks(side.endpoint, side, true);
  EXPECT_EQ(peer.talk().hear(), 1U);
  peer.talk().tell(2);
  peer.expect_good();
}

}  // namespace
}  // namespace hbmwire::test
