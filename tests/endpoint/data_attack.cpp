// SPDX-License-Identifier: MIT
#include "data_attack.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "hbmwire/memory_key.hpp"

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::test {

DataAttack::DataAttack(const std::function<void(wire::EndpointOffer&)>& alter_offer)
    : peer(context, worker, listener.port(), alter_offer),
      victim(value(listener.accept(within(10s)))),
      bystander_peer(connect_bystander()),
      bystander(value(listener.accept(within(10s)))) {
  open.fill(1);
  closed.fill(2);
  device.fill(3);
}

Endpoint DataAttack::connect_bystander() {
  std::atomic<bool> over{false};
  std::thread serving([&] {
    while (!over) worker.progress();
  });
  auto connected =
      Endpoint::connect(peer_worker, "127.0.0.1:" + std::to_string(listener.port()), within(10s));
  over = true;
  serving.join();
  return value(std::move(connected));
}

detail::EndpointState& DataAttack::state() const { return state_of(victim); }

void DataAttack::drive(int times) {
  for (int i = 0; i < times; ++i) {
    worker.progress();
    peer_worker.progress();
    peer.progress();
  }
}

Transfer& DataAttack::start(Result<Transfer> transfer) {
  pending.push_back(value(std::move(transfer)));
  return pending.back();
}

void DataAttack::expect_memory_unchanged(std::uint64_t offset, std::uint64_t length) {
  unsigned seed = 0;  // as in the constructor: 1, 2 and 3
  for (Memory* const memory : {&open, &closed, &device}) {
    auto now = memory->contents();
    auto was = pattern(kMemoryBytes, ++seed);
    // The range that may change is made equal in both.
    for (auto* const bytes : {&now, &was}) {
      std::fill_n(bytes->begin() + static_cast<std::ptrdiff_t>(offset), length, std::byte{0});
    }
    EXPECT_TRUE(now == was) << "a byte of memory " << seed << " has changed";
  }
}

void DataAttack::expect_failure(Errc code, const char* part) {
  drive_until([&] { return victim.phase() == EndpointPhase::failed; });
  ASSERT_EQ(victim.phase(), EndpointPhase::failed);
  const std::string sentence = describe(*victim.error());
  EXPECT_EQ(victim.error()->code, code) << sentence;
  EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
  EXPECT_NE(sentence.find(victim.peer()), std::string::npos) << sentence;
  for (Transfer& transfer : pending) {
    EXPECT_TRUE(transfer.done());
  }
  expect_unharmed();
}

void DataAttack::expect_ends() {
  const Deadline deadline = Deadline::after(10s);
  for (Transfer& transfer : pending) {
    if (!transfer.done()) static_cast<void>(transfer.cancel());
    EXPECT_TRUE(transfer.done());
  }
  EXPECT_FALSE(deadline.passed());
}

void DataAttack::expect_unharmed() {
  ASSERT_EQ(bystander.phase(), EndpointPhase::ready);
  constexpr std::uint64_t kBytes = 32768;
  Memory source(context, MemoryType::host, kBytes);
  Memory hidden(context, MemoryType::gaudi, kBytes, Access::local_write);
  Memory target(context, MemoryType::host, kBytes);
  source.fill(7);
  hidden.fill(7);
  const auto sent = pattern(kBytes, 7);
  std::uint64_t tag = 0;
  for (const bool back : {false, true}) {
    Endpoint& from = back ? bystander : bystander_peer;
    Endpoint& to = back ? bystander_peer : bystander;
    for (const std::uint64_t bytes : {64U, 5000U, 32768U}) {
      for (Memory* const sent_from : {&source, &hidden}) {
        for (const MemoryType type : {MemoryType::host, MemoryType::gaudi}) {
          Memory into(context, type, kBytes);
          Transfer receive = value(to.receive(into.slice(0, bytes), TagMatch{++tag}));
          Transfer send = value(from.send(sent_from->slice(0, bytes), tag));
          drive_until([&] { return receive.done() && send.done(); });
          for (Transfer* const transfer : {&receive, &send}) {
            const auto over = transfer->poll();
            ASSERT_TRUE(over) << describe(over.error());
          }
          const auto got = into.contents();
          EXPECT_TRUE(std::equal(sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(bytes),
                                 got.begin()));
        }
      }
    }
    const MemoryKey key = value(MemoryKey::pack(target.region()));
    const RemoteRegion remote = value(from.remote(value(RemoteKey::unpack(key.bytes()))));
    good(value(from.put(source.slice(0, kBytes), remote.slice(0, kBytes))).wait(10s));
    EXPECT_TRUE(same_bytes(target.contents(), sent));
  }
}

}  // namespace hbmwire::test
