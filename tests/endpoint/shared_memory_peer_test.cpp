// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/memory_key.hpp"

#include "internals.hpp"
#include "shared_memory_side.hpp"
#include "tests/support/open_descriptors.hpp"
#include "wire/message_header.hpp"

/// Peers of a node that are killed, and peers that write arbitrary bytes into memory that both have
/// mapped.
namespace hbmwire::test {
namespace {

using SharedMemoryPeer = NodeWays;
using transport::SharedRingFile;

INSTANTIATE_TEST_SUITE_P(Ways, SharedMemoryPeer, ::testing::ValuesIn(kNodeWays), name_of_way);

/// The work of a peer until it is killed.
void run_wild(Served& served, unsigned seed) {
  std::mt19937 random(seed);
  std::deque<Transfer> under_way;
  // The first message that arrives is a key to the memory of the test's process.
  Transfer key = value(served.endpoint->receive(served.slice(0, 1024)));
  served.finish(key);
  const RemoteRegion target = value(served.endpoint->remote(served.bytes().first(key.bytes())));
  for (;;) {
    const std::uint64_t length = random() % 8 == 0 ? random() % 300'000 : random() % 5000;
    const std::uint64_t offset = random() % (served.region.size_bytes() - length);
    const Slice here = served.slice(offset, length);
    const RemoteSlice there = target.slice(offset, length);
    Result<Transfer> started = tl::make_unexpected(Error{});
    switch (random() % 5) {
      case 0:
        started = served.endpoint->put(here, there);
        break;
      case 1:
        started = served.endpoint->put(here, there, {.immediate = 1});
        break;
      case 2:
        started = served.endpoint->get(here, there);
        break;
      case 3:
        started = served.endpoint->send(here);
        break;
      default:
        started = served.endpoint->receive(here);
        break;
    }
    if (!started && served.endpoint->phase() != EndpointPhase::ready) return;
    if (started) under_way.push_back(std::move(*started));
    served.worker.progress();
    while (under_way.size() > 200) under_way.pop_front();
  }
}

/// This process' open descriptors, without those that the emulated NIC keeps of other processes.
int descriptors_now() { return open_descriptors("/processes/"); }

/// Peers that are killed at random moments of a mixed stream: 50 of them, and 1,000 with label
/// full.
TEST_P(SharedMemoryPeer, APeerThatIsKilledEndsItsEndpointAlone) {
  const char* const wished = std::getenv("HBMWIRE_KILLED_NEIGHBOURS");
  const int rounds = wished != nullptr ? std::atoi(wished) : 50;
  NodeOptions node = options();
  node.endpoint.peer_timeout = 500ms;
  const Nursery nursery(node, [](Served& served, unsigned seed) {
    run_wild(served, seed);
    for (;;) served.worker.progress();
  });
  ServingProcess steady(node, [](Served& served, const Talk&) {
    // Echoes until its peer sends a goodbye.
    ::alarm(0);
    while (served.endpoint->phase() == EndpointPhase::ready) {
      Transfer receive = value(served.endpoint->receive(served.slice(0, 64)));
      while (!receive.done()) {
        if (served.worker.progress() == 0) std::this_thread::yield();
      }
      if (!receive.poll()) break;
      Transfer send = value(served.endpoint->send(served.slice(0, receive.bytes())));
      served.finish(send);
    }
  });
  Asking side(steady, node);
  const MemoryKey key = value(MemoryKey::pack(side.region));
  Memory packed(side.context, MemoryType::host, 1024);
  std::vector<std::byte> bytes(key.bytes().begin(), key.bytes().end());
  bytes.resize(1024);
  packed.set(bytes);
  int descriptors = 0;
  std::size_t rings = 0;
  std::mt19937 random(17);
  for (int round = 0; round < rounds; ++round) {
    const auto child = nursery.make(static_cast<unsigned>(round));
    std::vector<Transfer> all;
    {
      Endpoint endpoint =
          value(Endpoint::connect(side.worker, child.address, within(20s), node.endpoint));
      Transfer told = value(endpoint.send(packed.slice(0, key.bytes().size())));
      side.finish(told);
      const RemoteRegion target = value(endpoint.remote("target", within(20s)));
      const Deadline alive = Deadline::after(std::chrono::microseconds(random() % 20'000));
      while (!alive.passed()) {
        const std::uint64_t length = random() % 8 == 0 ? random() % 300'000 : random() % 5000;
        const std::uint64_t offset = random() % (node.bytes - length);
        const Slice here = side.slice(offset, length);
        Result<Transfer> started = tl::make_unexpected(Error{});
        switch (random() % 4) {
          case 0:
            started = endpoint.put(here, target.slice(offset, length));
            break;
          case 1:
            started = endpoint.get(here, target.slice(offset, length));
            break;
          case 2:
            started = endpoint.send(here);
            break;
          default:
            started = endpoint.receive(here);
            break;
        }
        if (started && all.size() < 2000) all.push_back(std::move(*started));
        side.worker.progress();
      }
      ::kill(child.id, SIGKILL);
      const auto begun = Clock::now();
      while (endpoint.phase() == EndpointPhase::ready ||
             endpoint.phase() == EndpointPhase::ending) {
        static_cast<void>(side.worker.wait(within(50ms)));
        ASSERT_LT(Clock::now() - begun, 2 * 500ms + kNodeSlack) << "round " << round;
      }
      EXPECT_EQ(endpoint.phase(), EndpointPhase::failed);
      for (Transfer& each : all) EXPECT_TRUE(each.done()) << "round " << round;
      const std::vector<std::byte> now(side.bytes().begin(), side.bytes().end());
      // Other endpoints continue.
      Transfer receive = value(side.endpoint.receive(side.slice(0, 64)));
      Transfer send = value(side.endpoint.send(side.slice(0, 33)));
      side.finish(receive);
      EXPECT_EQ(receive.bytes(), 33U);
      side.finish(send);
      EXPECT_TRUE(same_bytes(side.bytes().subspan(64), std::span(now).subspan(64)))
          << "round " << round;
    }
    all.clear();
    side.poll_until([&] { return internals::count_endpoints(side.worker) == 1; });
    // The first rounds open resources that stay open, so counting begins after them.
    if (round < 3) {
      descriptors = descriptors_now();
      rings = mapped_rings().size();
    } else if (round % 10 == 9) {
      EXPECT_LE(descriptors_now(), descriptors + 1) << "round " << round;
      EXPECT_EQ(mapped_rings().size(), rings) << "round " << round;
    }
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  good(side.endpoint.close(within(10s)));
  steady.expect_good();
}

/// The peer writes arbitrary bytes into the ring that this end reads, and into the ring that the
/// peer reads itself.
TEST_P(SharedMemoryPeer, APeerWithAForgedRingEndsItsEndpointAlone) {
  NodeOptions node = options();
  node.endpoint.peer_timeout = 500ms;
  const auto forge = [](unsigned seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 2000; ++i) {
      for (SharedRingFile* const ring : mapped_rings()) {
        auto& cell = ring->cells[random() % (i % 2 == 0 ? 8 : SharedRingFile::kCells)];
        switch (random() % 5) {
          case 0:
            cell.word = std::uint64_t{2} << 56U | (48 + random() % 200);
            break;
          case 1:
            cell.word = std::uint64_t{3} << 56U;
            break;
          case 2:
            cell.bytes[random() % cell.bytes.size()] = static_cast<std::byte>(random());
            break;
          case 3: {
            wire::MessageHeader header;
            header.kind = static_cast<wire::MessageHeader::Kind>(random() % 10);
            header.length = random() % 4 == 0 ? random() : random() % 100;
            header.id = static_cast<std::uint32_t>(random() % 8);
            header.credits = static_cast<std::uint16_t>(random() % 3);
            header.address = random() % 2 == 0 ? 0 : random();
            header.shared_key = static_cast<std::uint16_t>(random() % 20);
            wire::encode(header, cell.bytes.data() + 8);
            break;
          }
          default:
            if (seed % 3 == 0) ring->taken = random() % 600;
            break;
        }
      }
    }
  };
  const Nursery nursery(node, [&](Served& served, unsigned seed) {
    const Deadline end = Deadline::after(150ms);
    for (unsigned i = 0; !end.passed(); ++i) {
      forge(seed * 1000 + i);
      served.worker.progress();
      if (seed % 2 == 0) ::usleep(500);
    }
  });
  ServingProcess steady(node, [](Served& served, const Talk&) {
    Transfer receive = value(served.endpoint->receive(served.slice(0, 64)));
    served.poll_until([&] { return receive.done(); }, 100s);
    served.serve();
  });
  Asking side(steady, node);
  int protocol = 0;
  for (unsigned round = 0; round < 12; ++round) {
    const std::string address = nursery.make(round).address;
    Endpoint endpoint = value(Endpoint::connect(side.worker, address, within(20s), node.endpoint));
    std::vector<Transfer> all;
    const auto begun = Clock::now();
    while (endpoint.phase() == EndpointPhase::ready || endpoint.phase() == EndpointPhase::ending) {
      if (auto receive = endpoint.receive(side.slice(0, 128)); receive && all.size() < 500)
        all.push_back(std::move(*receive));
      if (auto send = endpoint.send(side.slice(0, 256)); send && all.size() < 500)
        all.push_back(std::move(*send));
      side.worker.progress();
      ASSERT_LT(Clock::now() - begun, 150ms + 2 * 500ms + kNodeSlack) << "round " << round;
    }
    if (endpoint.error() && endpoint.error()->code == Errc::protocol) ++protocol;
    for (const Transfer& each : all) EXPECT_TRUE(each.done());
    EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
  }
  EXPECT_GT(protocol, 3) << "too few of the forged rings were noticed";
  Transfer send = value(side.endpoint.send(side.slice(0, 8)));
  side.finish(send);
  good(side.endpoint.close(within(10s)));
  steady.expect_good();
}

}  // namespace
}  // namespace hbmwire::test
