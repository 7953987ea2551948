// SPDX-License-Identifier: MIT
#include <poll.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <string>
#include <thread>

#include "hbmwire/memory_key.hpp"

#include "ends.hpp"
#include "heard.hpp"
#include "internals.hpp"

/// Without a NIC, endpoints use TCP. Both ends are in one process, which drives both.
namespace hbmwire::test {
namespace {

constexpr std::array kTypes{MemoryType::host, MemoryType::gaudi, MemoryType::cuda,
                            MemoryType::rocm};
constexpr std::uint64_t kMiB = 1ULL << 20U;

class Tcp : public testing::Test {
 protected:
  /// Acts as on two nodes: memory that both have mapped is not used (shared_pieces_test.cpp).
  Tcp() {
    for (const Worker* const worker : {&ends.a_worker, &ends.b_worker})
      internals::keep_pieces_apart(*worker);
  }

  Result<void> result_of(Transfer& transfer) {
    ends.drive([&] { return transfer.done(); });
    return transfer.wait(1s);
  }

  Result<void> result_of(Result<Transfer> transfer) {
    if (!transfer) return tl::make_unexpected(transfer.error());
    return result_of(*transfer);
  }

  RemoteRegion remote_of(const Memory& memory, const MemoryKeyOptions& options = {}) {
    keys.push_back(value(MemoryKey::pack(memory.region(), options)));
    return value(ends.a->remote(value(RemoteKey::unpack(keys.back().bytes()))));
  }

  Ends ends{};
  std::vector<MemoryKey> keys;
};

TEST_F(Tcp, EndpointsWithoutANicUseTcp) {
  EXPECT_EQ(ends.a->nic().info().name, "tcp");
  EXPECT_EQ(ends.a->placement(), Placement::same_process);
  const Memory here(ends.context, MemoryType::host, 4096);
  Memory there(ends.context, MemoryType::host, 4096);
  Transfer put = value(ends.a->put(here.slice(0, 8), remote_of(there).slice(0, 8)));
  good(result_of(put));
  EXPECT_EQ(put.path(), Path::tcp);
  const TransferReport report = put.explain();
  EXPECT_EQ(report.path, Path::tcp);
  EXPECT_EQ(report.nic, "tcp");
  EXPECT_NE(describe(report).find("TCP"), std::string::npos) << describe(report);
  // The placeholder is no NIC that can register memory.
  const auto refused = ends.a->nic().register_memory(here.region().allocation(), kAll);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::invalid_argument);
}

TEST_F(Tcp, PutsAndGetsBetweenAllMemories) {
  for (const MemoryType from : kTypes) {
    for (const MemoryType to : kTypes) {
      for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4095},
                                       std::uint64_t{65537}, 3 * kMiB + 5}) {
        Memory here(ends.context, from, size + 200);
        Memory there(ends.context, to, size + 200);
        here.fill(1);
        there.fill(2);
        const RemoteRegion remote = remote_of(there);
        auto expected = pattern(size + 200, 2);
        const auto bytes = pattern(size + 200, 1);
        std::copy_n(bytes.begin() + 50, size, expected.begin() + 100);
        Transfer put = value(ends.a->put(here.slice(50, size), remote.slice(100, size)));
        good(result_of(put));
        EXPECT_EQ(put.path(), Path::tcp);
        ASSERT_TRUE(same_bytes(there.contents(), expected))
            << to_string(from) << to_string(to) << size;
        here.fill(3);
        auto back = pattern(size + 200, 3);
        std::copy_n(expected.begin() + 100, size, back.begin() + 7);
        good(result_of(ends.a->get(here.slice(7, size), remote.slice(100, size))));
        ASSERT_TRUE(same_bytes(here.contents(), back)) << to_string(from) << to_string(to) << size;
      }
    }
  }
}

TEST_F(Tcp, MessagesOfAnyLengthFindTheirReceives) {
  for (const MemoryType from : kTypes) {
    for (const MemoryType to : kTypes) {
      for (const bool late : {false, true}) {
        for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{8192},
                                         std::uint64_t{8193}, 2 * kMiB + 3}) {
          Memory here(ends.context, from, size + 1);
          Memory there(ends.context, to, size + 1);
          here.fill(4);
          there.fill(5);
          std::optional<Transfer> receive;
          if (!late) receive = value(ends.b->receive(there.slice(0, size), {.tag = 7}));
          Transfer send = value(ends.a->send(here.slice(0, size), 7));
          if (late) {
            for (int i = 0; i < 200; ++i) ends.b_worker.progress();
            receive = value(ends.b->receive(there.slice(0, size), {.tag = 7}));
          }
          good(result_of(*receive));
          good(result_of(send));
          EXPECT_EQ(receive->bytes(), size);
          EXPECT_EQ(receive->path(), Path::tcp);
          auto expected = pattern(size + 1, 4);
          expected.back() = pattern(size + 1, 5).back();
          ASSERT_TRUE(same_bytes(there.contents(), expected))
              << to_string(from) << to_string(to) << size;
        }
      }
    }
  }
}

TEST_F(Tcp, AMessageBehindAPutArrivesAfterIt) {
  for (const MemoryType to : kTypes) {
    Memory here(ends.context, MemoryType::host, kMiB);
    Memory there(ends.context, to, kMiB);
    const Memory word(ends.context, MemoryType::host, 64);
    const RemoteRegion remote = remote_of(there);
    for (unsigned round = 0; round < 5; ++round) {
      here.fill(round);
      Transfer put = value(ends.a->put(here.all(), remote.slice(0, kMiB)));
      Transfer send = value(ends.a->send(word.slice(0, 8)));
      Transfer receive = value(ends.b->receive(word.slice(8, 8)));
      good(result_of(receive));
      ASSERT_TRUE(same_bytes(there.contents(), pattern(kMiB, round))) << to_string(to);
      good(result_of(put));
      good(result_of(send));
    }
  }
}

TEST_F(Tcp, AnImmediateComesBehindItsBytes) {
  for (const MemoryType to : kTypes) {
    Memory here(ends.context, MemoryType::host, kMiB);
    Memory there(ends.context, to, kMiB);
    const RemoteRegion remote = remote_of(there);
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{5}, kMiB}) {
      here.fill(static_cast<unsigned>(size) + 1);
      Transfer put =
          value(ends.a->put(here.slice(0, size), remote.slice(0, size), {.immediate = 0xdeadbeef}));
      Transfer immediate = value(ends.b->receive_immediate(there.all()));
      good(result_of(immediate));
      EXPECT_EQ(immediate.value(), 0xdeadbeef);
      EXPECT_EQ(immediate.bytes(), size);
      const auto bytes = there.contents();
      const auto expected = pattern(kMiB, static_cast<unsigned>(size) + 1);
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size),
                             expected.begin()))
          << to_string(to);
      good(result_of(put));
    }
  }
}

TEST_F(Tcp, AtomicsAreOfHostMemory) {
  Memory there(ends.context, MemoryType::host, 64);
  std::vector<std::byte> zeros(64);
  there.set(zeros);
  const RemoteRegion remote = remote_of(there);
  Transfer add = value(ends.a->fetch_add(remote.slice(8, 8), 5));
  good(result_of(add));
  EXPECT_EQ(add.value(), 0U);
  Transfer swap = value(ends.a->compare_swap(remote.slice(8, 8), 5, 9));
  good(result_of(swap));
  EXPECT_EQ(swap.value(), 5U);
  Transfer not_swapped = value(ends.a->compare_swap(remote.slice(8, 8), 5, 11));
  good(result_of(not_swapped));
  EXPECT_EQ(not_swapped.value(), 9U);
  std::uint64_t now = 0;
  std::memcpy(&now, there.contents().data() + 8, sizeof now);
  EXPECT_EQ(now, 9U);

  const Memory device(ends.context, MemoryType::cuda, 64);
  const RemoteRegion on_device = remote_of(device);
  const auto refused = ends.a->fetch_add(on_device.slice(0, 8), 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::not_supported);
  EXPECT_EQ(ends.a->phase(), EndpointPhase::ready);
}

/// Other threads of this CPU add to the same word, and so does another endpoint, whose peer has its
/// own worker.
TEST_F(Tcp, AtomicsAreOneWithThoseOfTheCpuAndOfOtherEndpoints) {
  constexpr std::uint64_t kAdds = 20'000;
  Memory there(ends.context, MemoryType::host, 64);
  there.set(std::vector<std::byte>(64));
  const RemoteRegion remote = remote_of(there);
  auto* const word = std::bit_cast<std::uint64_t*>(there.region().address());
  std::atomic<bool> stop = false;
  std::uint64_t added = 0;
  std::thread of_cpu([&] {
    for (; !stop; ++added) std::atomic_ref(*word).fetch_add(1);
  });
  std::thread of_another([&] {
    Ends others;
    const RemoteRegion at = value(others.a->remote(value(RemoteKey::unpack(keys.front().bytes()))));
    for (std::uint64_t i = 0; i < kAdds; ++i) {
      Transfer add = value(others.a->fetch_add(at.slice(0, 8), 1));
      finish(others, add);
    }
  });
  for (std::uint64_t i = 0; i < kAdds; ++i)
    good(result_of(ends.a->fetch_add(remote.slice(0, 8), 1)));
  of_another.join();
  stop = true;
  of_cpu.join();
  EXPECT_EQ(*word, added + 2 * kAdds);
}

TEST_F(Tcp, ManyOperationsKeepTheirOrder) {
  Memory here(ends.context, MemoryType::host, 512);
  Memory there(ends.context, MemoryType::host, 512);
  Memory into(ends.context, MemoryType::host, 512);
  here.fill(8);
  const RemoteRegion remote = remote_of(there);
  std::vector<Transfer> transfers;
  for (std::uint64_t i = 0; i < 512; ++i)
    transfers.push_back(value(ends.a->put(here.slice(i, 1), remote.slice(i, 1))));
  good(ends.a->fence());
  Transfer get = value(ends.a->get(into.all(), remote.slice(0, 512)));
  Transfer flush = value(ends.a->flush());
  good(result_of(flush));
  for (Transfer& transfer : transfers) EXPECT_TRUE(transfer.done());
  good(result_of(get));
  EXPECT_TRUE(same_bytes(into.contents(), pattern(512, 8)));
}

TEST_F(Tcp, ListsGoAsOne) {
  Memory here(ends.context, MemoryType::host, 4096);
  Memory there(ends.context, MemoryType::host, 4096);
  here.fill(1);
  const RemoteRegion remote = remote_of(there);
  std::vector<TransferPart> parts;
  for (std::uint64_t i = 0; i < 64; ++i)
    parts.push_back({here.slice(i * 64, 64), remote.slice((63 - i) * 64, 64)});
  PreparedTransfer put = value(ends.a->prepare_put(parts, {.immediate = 3}));
  for (int round = 0; round < 3; ++round) {
    here.fill(static_cast<unsigned>(round));
    Transfer transfer = value(put.post());
    Transfer immediate = value(ends.b->receive_immediate({}));
    good(result_of(transfer));
    good(result_of(immediate));
    const auto bytes = there.contents();
    const auto expected = pattern(4096, static_cast<unsigned>(round));
    for (std::size_t i = 0; i < 64; ++i)
      EXPECT_EQ(std::memcmp(&bytes[(63 - i) * 64], &expected[i * 64], 64), 0);
  }
}

TEST_F(Tcp, ListsOfThisEndsDeviceMemoryAreRefused) {
  Memory host(ends.context, MemoryType::host, 64);
  Memory device(ends.context, MemoryType::cuda, 64);
  const RemoteRegion of_host = remote_of(host);
  const RemoteRegion of_device = remote_of(device);
  const TransferPart refused{device.all(), of_host.slice(0, 64)};
  const TransferPart taken{host.all(), of_device.slice(0, 64)};
  const auto prepare = [&](bool puts, const TransferPart& part) {
    return puts ? ends.a->prepare_put({&part, 1}) : ends.a->prepare_get({&part, 1});
  };
  for (const bool puts : {true, false}) {
    const auto none = prepare(puts, refused);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::not_supported) << describe(none.error());
    host.fill(puts ? 1 : 2);
    PreparedTransfer list = value(prepare(puts, taken));
    good(result_of(list.post()));
    EXPECT_TRUE(same_bytes((puts ? device : host).contents(), pattern(64, 1)));
  }
}

/// The message names this end's device memory, or the peer's if this end has host memory.
TEST_F(Tcp, DeviceMemoryOverTcpIsLoggedOnce) {
  for (const bool peers : {false, true}) {
    for (const bool puts : {true, false}) {
      Heard heard;
      Ends fresh;
      Memory here(fresh.context, peers ? MemoryType::host : MemoryType::cuda, 64);
      Memory there(fresh.context, peers ? MemoryType::cuda : MemoryType::host, 64);
      const MemoryKey key = value(MemoryKey::pack(there.region()));
      const RemoteRegion remote = value(fresh.a->remote(value(RemoteKey::unpack(key.bytes()))));
      for (int i = 0; i < 3; ++i) {
        Transfer transfer = value(puts ? fresh.a->put(here.slice(0, 8), remote.slice(0, 8))
                                       : fresh.a->get(here.slice(0, 8), remote.slice(0, 8)));
        finish(fresh, transfer);
        EXPECT_EQ(transfer.path(), Path::tcp);
      }
      constexpr const char* kSaid = "not zero-copy: one of both ends has no RDMA device";
      // When the endpoint is checked.
      fresh.drive([&] { return heard.count(kSaid) != 0; });
      const Deadline later = Deadline::after(300ms);
      fresh.drive([&] { return later.passed(); });
      EXPECT_EQ(heard.count(kSaid), 1U);
    }
  }
}

TEST_F(Tcp, AKeyGivesNoMoreThanItSays) {
  Memory here(ends.context, MemoryType::host, 4096);
  Memory there(ends.context, MemoryType::host, 4096);
  there.fill(1);
  const RemoteRegion honest =
      remote_of(there, {.offset_bytes = 1024, .length_bytes = 1024, .access = Access::remote_read});
  good(result_of(ends.a->get(here.slice(0, 1024), honest.slice(0, 1024))));
  // The key is forged. The peer checks it, not this end.
  RemoteRegion forged = honest;
  auto lie = internals::look_at(forged);
  lie.access = kAll;
  internals::set(forged, lie);
  const auto put = result_of(ends.a->put(here.slice(0, 8), forged.slice(0, 8)));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Errc::permission_denied) << describe(put.error());
  EXPECT_EQ(ends.a->phase(), EndpointPhase::failed);
  EXPECT_TRUE(same_bytes(there.contents(), pattern(4096, 1)));
}

TEST_F(Tcp, ARangeOutsideTheKeyIsRefused) {
  Memory here(ends.context, MemoryType::host, 4096);
  Memory there(ends.context, MemoryType::host, 4096);
  there.fill(1);
  RemoteRegion forged = remote_of(there, {.offset_bytes = 1024, .length_bytes = 1024});
  auto lie = internals::look_at(forged);
  lie.length_bytes = 4096;
  internals::set(forged, lie);
  const auto put = result_of(ends.a->put(here.slice(0, 8), forged.slice(1020, 8)));
  ASSERT_FALSE(put);
  EXPECT_TRUE(same_bytes(there.contents(), pattern(4096, 1)));
}

TEST_F(Tcp, ARevokedKeyOpensNothing) {
  Memory here(ends.context, MemoryType::host, 64);
  Memory there(ends.context, MemoryType::host, 64, Access::local_write);
  there.fill(1);
  const RemoteRegion remote = remote_of(there, {.access = Access::remote_write});
  good(result_of(ends.a->put(here.slice(0, 8), remote.slice(0, 8))));
  there.fill(2);
  keys.clear();
  const auto put = result_of(ends.a->put(here.slice(0, 8), remote.slice(0, 8)));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Errc::permission_denied) << describe(put.error());
  EXPECT_TRUE(same_bytes(there.contents(), pattern(64, 2)));
}

TEST_F(Tcp, ACancelledTransferChangesNothingMore) {
  for (const MemoryType to : {MemoryType::host, MemoryType::cuda}) {
    Ends both;
    Memory here(both.context, MemoryType::host, 16 * kMiB);
    Memory there(both.context, to, 16 * kMiB);
    const MemoryKey key = value(MemoryKey::pack(there.region()));
    const RemoteRegion remote = value(both.a->remote(value(RemoteKey::unpack(key.bytes()))));
    here.fill(1);
    there.fill(2);
    Transfer put = value(both.a->put(here.all(), remote.slice(0, 16 * kMiB)));
    for (int i = 0; i < 3; ++i) both.b_worker.progress();
    beside(both.b_worker, [&] { good(put.cancel()); });
    EXPECT_TRUE(put.settled());
    here.fill(3);
    const auto at_report = there.contents();
    for (int i = 0; i < 1000; ++i) both.b_worker.progress();
    EXPECT_TRUE(same_bytes(there.contents(), at_report));
    const auto old = pattern(16 * kMiB, 2);
    const auto fresh = pattern(16 * kMiB, 1);
    bool foreign = false;
    for (std::size_t i = 0; i < old.size(); ++i)
      foreign |= at_report[i] != old[i] && at_report[i] != fresh[i];
    EXPECT_FALSE(foreign);
    EXPECT_FALSE(at_report == fresh) << "nothing was cancelled";
  }
}

TEST_F(Tcp, ClosesWithAGoodbyeAndConnectsAgain) {
  beside(ends.b_worker, [&] { good(ends.a->close(within(10s))); });
  EXPECT_EQ(ends.a->phase(), EndpointPhase::closed);
  ends.drive([&] { return ends.b->phase() != EndpointPhase::ready; });
  EXPECT_EQ(ends.b->phase(), EndpointPhase::closed);
  std::optional<Endpoint> again;
  std::thread accepting([&] { again.emplace(value(ends.listener.accept(within(10s)))); });
  good(ends.a->reconnect(within(10s)));
  accepting.join();
  const Memory here(ends.context, MemoryType::host, 64);
  Transfer send = value(ends.a->send(here.slice(0, 8)));
  Transfer receive = value(again->receive(here.slice(8, 8)));
  good(result_of(receive));
  good(result_of(send));
}

TEST_F(Tcp, MemoryIsFoundByName) {
  Memory there(ends.context, MemoryType::host, 64);
  good(ends.listener.advertise("weights", there.region()));
  RemoteRegion remote;
  beside(ends.b_worker, [&] { remote = value(ends.a->remote("weights", within(10s))); });
  EXPECT_EQ(remote.length_bytes(), 64U);
}

TEST_F(Tcp, TheSocketWakesASleeper) {
  const Memory here(ends.context, MemoryType::host, 64);
  Transfer receive = value(ends.b->receive(here.slice(8, 8)));
  std::optional<Transfer> send;
  std::thread later([&] {
    std::this_thread::sleep_for(100ms);
    send = value(ends.a->send(here.slice(0, 8)));
  });
  const auto begun = std::chrono::steady_clock::now();
  good(receive.wait(20s));
  later.join();
  // Faster than by the clock: a worker looks at it at least four times a second.
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 200ms);
}

/// A put larger than the sockets hold, which the receiver has not read yet.
class TcpWithoutRoom : public Tcp {
 protected:
  TcpWithoutRoom() : here(ends.context, MemoryType::host, 64 * kMiB) {}

  void put() { put_ = value(ends.a->put(here.all(), remote_of(there).slice(0, 64 * kMiB))); }

  /// Whether the descriptor wakes a sleeper.
  [[nodiscard]] bool is_woken(int timeout_ms = 0) const {
    pollfd fd{ends.a_worker.fd(), POLLIN, 0};
    return ::poll(&fd, 1, timeout_ms) > 0;
  }

  void expect_woken_by_room() {
    EXPECT_FALSE(put_.done());
    EXPECT_FALSE(is_woken()) << "the socket is full";
    for (int i = 0; i < 2000; ++i) ends.b_worker.progress();
    EXPECT_TRUE(is_woken(5000));
    good(result_of(put_));
    while (!value(ends.a_worker.arm())) continue;
    EXPECT_FALSE(is_woken()) << "nothing waits for room any more";
  }

  Memory here;
  Memory there{ends.context, MemoryType::host, 64 * kMiB};
  Transfer put_;
};

TEST_F(TcpWithoutRoom, ASleeperIsWokenWhenThereIsRoom) {
  put();
  while (!value(ends.a_worker.arm())) continue;
  expect_woken_by_room();
}

TEST_F(TcpWithoutRoom, ASleeperIsWokenDespiteAnotherPut) {
  while (!value(ends.a_worker.arm())) continue;
  put();
  expect_woken_by_room();
}

TEST(TcpWithin, AnEngineCopiesWithoutANicAndTcpCarriesTheRest) {
  Ends ends({}, {}, {.memory = {}, .paths = {.allow = {Path::host, Path::copy, Path::tcp}}});
  Memory host(ends.context, MemoryType::host, 8192);
  Memory other(ends.context, MemoryType::host, 8192);
  Memory device(ends.context, MemoryType::cuda, 8192);
  host.fill(1);
  other.fill(2);
  device.fill(3);
  const MemoryKey device_key = value(MemoryKey::pack(device.region()));
  const MemoryKey host_key = value(MemoryKey::pack(other.region()));
  const auto remote_of = [&](const MemoryKey& key) {
    return value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
  };
  const RemoteRegion on_device = remote_of(device_key);
  const RemoteRegion on_host = remote_of(host_key);
  const auto path_of = [&](Result<Transfer> started) {
    Transfer transfer = value(std::move(started));
    ends.drive([&] { return transfer.done(); });
    good(transfer.wait(1s));
    return transfer.path();
  };
  // A copy by the engine keeps its order with transfers over TCP, and its immediate follows it.
  Transfer before = value(ends.a->put(host.slice(0, 4096), on_host.slice(0, 4096)));
  const PutOptions tells{.level = CompletionLevel::visible, .immediate = 5};
  EXPECT_EQ(path_of(ends.a->put(host.slice(0, 4096), on_device.slice(0, 4096), tells)), Path::copy);
  EXPECT_TRUE(before.done());
  EXPECT_EQ(before.path(), Path::tcp);
  Transfer told = value(ends.b->receive_immediate({}));
  ends.drive([&] { return told.done(); });
  EXPECT_EQ(told.value(), 5U);
  EXPECT_EQ(path_of(ends.a->get(other.slice(4096, 4096), on_device.slice(0, 4096))), Path::copy);
  const auto sent = pattern(8192, 1);
  const auto there = other.contents();
  EXPECT_TRUE(std::equal(there.begin(), there.begin() + 4096, sent.begin()));
  EXPECT_TRUE(std::equal(there.begin() + 4096, there.end(), sent.begin()));
  EXPECT_EQ(path_of(ends.a->put(device.slice(0, 64), on_host.slice(0, 64))), Path::copy);
}

TEST(TcpPolicy, ZeroCopyRefusesEndpointsWithoutANic) {
  const Context context =
      value(Context::create({.memory = {}, .paths = {.require = Path::zero_copy}}));
  const auto worker = Worker::create(context);
  ASSERT_FALSE(worker);
  EXPECT_EQ(worker.error().hint, Hint::no_rdma_device) << describe(worker.error());
  const auto memory = value(context.allocate(MemoryType::host, 64));
  EXPECT_FALSE(context.register_memory(memory, kAll));
}

/// The name counts even though there is no device at all.
TEST(TcpPolicy, ANamedNicIsRequired) {
  const Context context = value(Context::create({.memory = {}, .nics = {"mlx5_0"}}));
  const auto worker = Worker::create(context);
  ASSERT_FALSE(worker);
  EXPECT_EQ(worker.error().hint, Hint::no_such_rdma_device) << describe(worker.error());
  EXPECT_NE(describe(worker.error()).find("mlx5_0"), std::string::npos);
  const auto memory = value(context.allocate(MemoryType::host, 64));
  EXPECT_FALSE(context.register_memory(memory, kAll));
}

TEST(TcpPolicy, TheConnectionManagerIsRefused) {
  const Context context = value(Context::create());
  const Worker worker = value(Worker::create(context));
  const Listener listener = value(Listener::create(worker, {.address = "127.0.0.1"}));
  const auto refused = Endpoint::connect(
      worker, "rdma_cm://127.0.0.1:" + std::to_string(listener.port()), within(10s));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().stage, Stage::connect) << describe(refused.error());
  EXPECT_FALSE(Listener::create(worker, {.address = "127.0.0.1", .rdma_cm = true}));
}

/// The message is logged once per process, so this test needs its own suite.
TEST(TcpLog, AMissingNicIsLoggedOnce) {
  Heard heard;
  const Context context = value(Context::create());
  const Worker one = value(Worker::create(context));
  const Worker two = value(Worker::create(context));
  EXPECT_EQ(heard.count("endpoints go by TCP, through this process"), 1U);
}

TEST(TcpPolicy, AnEndpointThatExcludesTcpIsRefused) {
  const Context context = value(Context::create());
  const Worker worker = value(Worker::create(context));
  const Worker other = value(Worker::create(context));
  Listener listener = value(Listener::create(other, {.address = "127.0.0.1"}));
  const auto where = "127.0.0.1:" + std::to_string(listener.port());
  for (const PathPolicy& policy : {PathPolicy{.require = Path::zero_copy},
                                   PathPolicy{.allow = {Path::host, Path::zero_copy}}}) {
    const auto refused = Endpoint::connect(worker, where, within(10s), {.paths = policy});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::permission_denied) << describe(refused.error());
    EXPECT_EQ(refused.error().hint, Hint::path_policy);
  }
  EXPECT_FALSE(EndpointInvitation::create(worker, {}));
}

TEST(TcpKeyed, BothEndsProveTheirKey) {
  const Ends ends({.pre_shared_key = key_of(1)});
  EXPECT_EQ(ends.a->nic().info().name, "tcp");
  Context context = value(Context::create());
  const Worker worker = value(Worker::create(context));
  std::optional<Result<Endpoint>> refused;
  Worker serving = ends.b_worker;
  beside(serving, [&] {
    refused = Endpoint::connect(worker, "127.0.0.1:" + std::to_string(ends.listener.port()),
                                within(10s), {.pre_shared_key = key_of(2)});
  });
  EXPECT_FALSE(*refused);
}

}  // namespace
}  // namespace hbmwire::test
