// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "shared_memory_side.hpp"
#include "wire/message_header.hpp"

/// Threads that sleep while messages arrive by shared memory.
namespace hbmwire::test {
namespace {

using transport::SharedRingFile;

/// How a thread sleeps: in wait(); while a progress thread works; in poll(2) of the worker's
/// descriptor.
enum class Sleeper : std::uint8_t { wait, thread, descriptor };

struct Sleep {
  Sleeper how;
  const char* nic;
};

/// In these rounds the sleeper's ring becomes cold before it sleeps, so its bell must ring.
constexpr bool becomes_cold(std::uint64_t round) { return round % 64 < 3 && round % 3 == 0; }

class SharedMemorySleep : public ::testing::TestWithParam<Sleep> {
 protected:
  static NodeOptions options(bool sleeps) {
    NodeOptions node;
    node.nics = {GetParam().nic};
    node.worker.progress_thread = sleeps && GetParam().how == Sleeper::thread;
    // The sleeper checks its endpoints so rarely that the test notices a lost wake-up.
    node.endpoint.peer_timeout = 120s;
    return node;
  }

  /// Waits until the transfer has ended, and sleeps as much as possible.
  static void sleep_until_over(Served& served, Transfer& transfer) {
    if (GetParam().how != Sleeper::descriptor) {
      good(transfer.wait(within(60s)));
      return;
    }
    const Deadline deadline = Deadline::after(60s);
    while (!transfer.done() && !deadline.passed()) {
      while (served.worker.progress() != 0) {
      }
      if (transfer.done() || !value(served.worker.arm())) continue;
      pollfd waits{served.worker.fd(), POLLIN, 0};
      ::poll(&waits, 1, static_cast<int>(served.worker.wake_after().count()));
    }
    EXPECT_TRUE(transfer.done());
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, SharedMemorySleep,
                         ::testing::Values(Sleep{Sleeper::wait, "emu0"},
                                           Sleep{Sleeper::thread, "emu0"},
                                           Sleep{Sleeper::descriptor, "emu0"},
                                           Sleep{Sleeper::descriptor, "none"},
                                           Sleep{Sleeper::thread, "none"}),
                         [](const auto& sleep) {
                           const auto how = sleep.param.how;
                           return std::string(how == Sleeper::wait     ? "wait_"
                                              : how == Sleeper::thread ? "thread_"
                                                                       : "descriptor_") +
                                  sleep.param.nic;
                         });

TEST_P(SharedMemorySleep, EachMessageAndImmediateEndsTheSleep) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::uint64_t kRounds = 1000;
#else
  constexpr std::uint64_t kRounds = 10'000;
#endif
  ServingProcess peer(options(true), [](Served& served, const Talk& talk) {
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      Transfer receive = value(round % 2 == 0 ? served.endpoint->receive(served.slice(0, 64))
                                              : served.endpoint->receive_immediate());
      const std::uint64_t polls = becomes_cold(round) ? 20'000
                                  : round % 64 < 3    ? round % 5 * 10
                                                      : 0;
      for (std::uint64_t i = 0; i < polls; ++i) served.worker.progress();
      // So many polls can take longer than a round may, so the sender starts its clock after this.
      if (becomes_cold(round)) talk.tell(round);
      sleep_until_over(served, receive);
      ASSERT_FALSE(HasFailure()) << round;
      Transfer answer = value(served.endpoint->send(served.slice(64, 8)));
      good(answer.wait(within(60s)));
    }
  });
  Asking side(peer, options(false));
  std::mt19937 random(1);
  auto longest = Clock::duration::zero();
  std::uint64_t late = 0;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    if (becomes_cold(round)) {
      side.poll_until([&] { return peer.talk().can_hear(); }, 60s);
      ASSERT_EQ(peer.talk().hear(), round);
    }
    // Messages come at random moments while the sleeper is about to sleep, and when it has slept
    // for a while.
    for (auto polls = random() % 100; polls != 0; --polls) side.worker.progress();
    if (round % 8 == 0) side.poll_for(std::chrono::microseconds(random() % 800));
    if (round % 64 < 3) side.poll_for(3ms);
    const auto begun = Clock::now();
    Transfer answer = value(side.endpoint.receive(side.slice(0, 64)));
    Transfer word =
        value(round % 2 == 0 ? side.endpoint.send(side.slice(64, 8))
                             : side.put(64, 8, {.immediate = static_cast<std::uint32_t>(round)}));
    side.finish(word);
    side.finish(answer);
    ASSERT_FALSE(HasFailure()) << round;
    longest = std::max(longest, Clock::now() - begun);
    late += Clock::now() - begun > 200ms ? 1U : 0U;
  }
  // After a lost wake-up the sleeper sees the message at its next look by the clock, after 250 ms.
  // A busy machine delays few rounds for so long. If the wake-ups of one kind of round were lost,
  // at least 1 round in 64 would be late.
  EXPECT_LT(longest, kNodeSlack);
  EXPECT_LE(late, kRounds / 100);
  peer.expect_good();
}

/// The ring whose reader looks at it as soon as its bell rings; null if there is none.
SharedRingFile* ring_by_bell() {
  for (SharedRingFile* const ring : mapped_rings()) {
    if (ring->attention == static_cast<std::uint32_t>(transport::Attention::bell)) return ring;
  }
  return nullptr;
}

/// A sender is interrupted between storing the word of its frame and ringing the bell. The sleeper
/// must see the frame itself, or sleep only until its next look by the clock.
TEST(SharedMemoryBell, ASleeperSeesAFrameThatComesBeforeItsBell) {
  NodeOptions node;
  node.endpoint.peer_timeout = 120s;
  ServingProcess peer(node, [](Served& served, const Talk& talk) {
    // The first message ends any sleep that the other process began in order to connect. After the
    // second one the other process polls and this one does not, so only this one's ring
    // becomes cold.
    served.await(talk, 0);
    Transfer first = value(served.endpoint->send(served.slice(0, 8)));
    served.finish(first);
    Transfer second = value(served.endpoint->receive(served.slice(0, 8)));
    served.finish(second);
    EXPECT_EQ(talk.hear(), 1U);
    SharedRingFile* const own = ring_by_bell();
    ASSERT_NE(own, nullptr);
    // Writes a message of 8 bytes into the ring by hand, without ringing the bell.
    auto& cell = own->cells[own->taken];
    wire::MessageHeader header;
    header.kind = wire::MessageHeader::Kind::plain;
    header.length = 8;
    std::array<std::byte, wire::kMessageHeaderBytes + 8> message{};
    wire::encode(header, message.data());
    static_assert(sizeof cell.bytes >= 8 + message.size());
    std::ranges::copy(message, cell.bytes.begin() + 8);
    ASSERT_EQ(cell.word, 0U);
    cell.word = std::uint64_t{2} << 56U | message.size();
    talk.tell(2);
    for (;;) ::pause();
  });
  Asking side(peer, node);
  peer.talk().tell(0);
  Transfer first = value(side.endpoint.receive(side.slice(0, 8)));
  side.finish(first);
  Transfer second = value(side.endpoint.send(side.slice(0, 8)));
  side.finish(second);
  Transfer receive = value(side.endpoint.receive(side.slice(0, 8)));
  int polls = 0;
  side.poll_until([&] { return ++polls % 1000 == 0 && ring_by_bell() != nullptr; });
  ASSERT_FALSE(receive.done());
  peer.talk().tell(1);
  ASSERT_EQ(peer.talk().hear(), 2U);
  const bool may_sleep = value(side.worker.arm());
  EXPECT_TRUE(receive.done() || !may_sleep) << "the frame is there, and the thread would sleep";
}

/// When an endpoint has ended, the next one uses its bell, and may belong to another worker.
TEST(SharedMemoryBell, RingsForTheEndpointThatUsesItNow) {
  // This process listens with two workers, and keeps the first one's endpoint after its peer has
  // ended.
  OtherProcess first([](const Talk& talk) {
    set_log_sink([](LogLevel, std::string_view) {});
    const std::string address = "127.0.0.1:" + std::to_string(talk.hear());
    {
      Asking side(address, {});
      good(side.endpoint.close(within(10s)));
    }
    talk.tell(1);
    const std::string other = "127.0.0.1:" + std::to_string(talk.hear());
    Asking side(other, {});
    talk.tell(2);
    EXPECT_EQ(talk.hear(), 3U);
    Transfer send = value(side.endpoint.send(side.slice(0, 8)));
    side.finish(send);
    EXPECT_EQ(send.path(), Path::shared_memory);
    talk.tell(4);
    EXPECT_EQ(talk.hear(), 5U);
  });
  NodeSide one{NodeOptions{}};
  Worker other = value(Worker::create(one.context));
  const auto listen = [&](const Worker& worker) {
    return value(
        Listener::create(worker, {.address = "127.0.0.1", .endpoint = {.peer_timeout = 120s}}));
  };
  Listener at_one = listen(one.worker);
  Listener at_other = listen(other);
  good(at_one.advertise("target", one.region));
  good(at_other.advertise("target", one.region));
  first.talk().tell(at_one.port());
  const Endpoint left = value(at_one.accept(within(20s)));
  one.poll_until([&] { return left.phase() == EndpointPhase::closed; });
  EXPECT_EQ(first.talk().hear(), 1U);
  first.talk().tell(at_other.port());
  Endpoint endpoint = value(at_other.accept(within(20s)));
  Transfer receive = value(endpoint.receive(one.slice(0, 8)));
  const Deadline found = Deadline::after(500ms);
  while (!found.passed()) other.progress();  // answers the question for "target"
  EXPECT_EQ(first.talk().hear(), 2U);
  // Until the rings of both are cold.
  for (int i = 0; i < 40'000; ++i) {
    one.worker.progress();
    other.progress();
  }
  first.talk().tell(3);
  EXPECT_EQ(first.talk().hear(), 4U);
  for (int i = 0; i < 1000; ++i) one.worker.progress();
  const Deadline soon = Deadline::after(2s);
  while (!receive.done() && !soon.passed()) other.progress();
  EXPECT_TRUE(receive.done()) << "the first worker has taken the bell";
  first.talk().tell(5);
  first.expect_good();
}

/// Rings are silent for long, and a message arrives in one of them now and then.
TEST(SharedMemoryBell, RingsForEachOfAHundredEndpoints) {
  constexpr std::size_t kEndpoints = 100;
  constexpr int kRounds = 300;
  NodeOptions node;
  node.endpoint.peer_timeout = 120s;
  node.logs = false;
  OtherProcess peer([&](const Talk& talk) {
    set_log_sink([](LogLevel, std::string_view) {});
    NodeSide side(node);
    const std::string address = "127.0.0.1:" + std::to_string(talk.hear());
    std::vector<Endpoint> endpoints;
    for (std::size_t i = 0; i < kEndpoints; ++i)
      endpoints.push_back(
          value(Endpoint::connect(side.worker, address, within(20s), node.endpoint)));
    talk.tell(1);
    for (;;) {
      side.poll_until([&] { return talk.can_hear(); }, 100s);
      const std::uint64_t which = talk.hear();
      if (which >= kEndpoints) return;
      std::memcpy(side.bytes().data(), &which, sizeof which);
      Transfer send = value(endpoints[which].send(side.slice(0, 8)));
      side.finish(send);
    }
  });
  NodeSide side(node);
  Listener listener =
      value(Listener::create(side.worker, {.address = "127.0.0.1", .endpoint = node.endpoint}));
  peer.talk().tell(listener.port());
  std::vector<Endpoint> endpoints;
  while (endpoints.size() < kEndpoints) endpoints.push_back(value(listener.accept(within(20s))));
  EXPECT_EQ(peer.talk().hear(), 1U);
  std::vector<Transfer> receives;
  for (std::size_t i = 0; i < kEndpoints; ++i)
    receives.push_back(value(endpoints[i].receive(side.slice(i * 64, 64))));
  for (int i = 0; i < 20'000; ++i) side.worker.progress();  // until the rings are cold
  std::mt19937 random(3);
  int late = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t which = random() % kEndpoints;
    const auto begun = Clock::now();
    peer.talk().tell(which);
    std::size_t came = kEndpoints;
    side.poll_until([&] {
      for (std::size_t i = 0; i < kEndpoints; ++i) {
        if (receives[i].done()) came = i;
      }
      return came != kEndpoints;
    });
    ASSERT_LT(came, kEndpoints);
    late += Clock::now() - begun > 200ms ? 1 : 0;
    std::uint64_t told = ~std::uint64_t{0};
    std::memcpy(&told, &side.bytes()[came * 64], sizeof told);
    ASSERT_EQ(told, which);
    receives[came] = value(endpoints[came].receive(side.slice(came * 64, 64)));
    if (round % 10 == 0) {
      for (int i = 0; i < 20'000; ++i) side.worker.progress();
    }
  }
  EXPECT_LE(late, kRounds / 50) << "without a bell it takes 250 ms";
  peer.talk().tell(kEndpoints);
  peer.expect_good();
}

}  // namespace
}  // namespace hbmwire::test
