// SPDX-License-Identifier: MIT
#include "hbmwire/counters.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/memory_key.hpp"
#include "hbmwire/registration.hpp"

#include "ends.hpp"

/// Counters agree with the operations that were done (docs/metrics.md).
namespace hbmwire::test {
namespace {

/// Operations and bytes of one kind.
struct Sum {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;

  bool operator==(const Sum&) const = default;
};

Sum sum_of(const Counters& counters, TransferKind kind) {
  Sum sum;
  for (const TransferCounters& each : counters.transfers) {
    if (each.labels.kind != kind) continue;
    sum.operations += each.operations;
    sum.bytes += each.bytes;
  }
  return sum;
}

std::uint64_t failures_of(const Counters& counters) {
  return std::accumulate(
      counters.failures.begin(), counters.failures.end(), std::uint64_t{0},
      [](std::uint64_t all, const FailureCounters& each) { return all + each.operations; });
}

std::uint64_t timed_of(const Counters& counters) {
  return std::accumulate(
      counters.times.begin(), counters.times.end(), std::uint64_t{0},
      [](std::uint64_t all, const TransferTimesHistogram& each) { return all + each.count(); });
}

class CountersOf : public testing::Test {
 protected:
  explicit CountersOf(const WorkerOptions& options = {}) : ends(EndpointOptions{}, options) {}

  [[nodiscard]] RemoteRegion remote(const Memory& memory) {
    keys.push_back(value(MemoryKey::pack(memory.region())));
    return value(ends.a->remote(keys.back().bytes()));
  }

  void finish(Result<Transfer> started) {
    Transfer transfer = value(std::move(started));
    ends.drive([&] { return transfer.done(); });
    EXPECT_TRUE(value(transfer.poll()));
  }

  [[nodiscard]] Counters counters_of_a() const { return value(ends.a->counters()); }

  Ends ends;
  Memory ours{ends.context, MemoryType::host, 1 << 20};
  Memory theirs{ends.context, MemoryType::host, 1 << 20};
  std::vector<MemoryKey> keys;
};

TEST_F(CountersOf, PutsAndGetsAreCountedToTheByte) {
  const RemoteRegion there = remote(theirs);
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    finish(ends.a->put(ours.slice(0, i * 7), there.slice(0, i * 7)));
    bytes += i * 7;
  }
  finish(ends.a->put(ours.all(), there.slice()));
  finish(ends.a->get(ours.slice(0, 12345), there.slice(0, 12345)));
  const Counters counters = counters_of_a();
  EXPECT_EQ(sum_of(counters, TransferKind::put), (Sum{201, bytes + (1 << 20)}));
  EXPECT_EQ(sum_of(counters, TransferKind::get), (Sum{1, 12345}));
  EXPECT_EQ(counters.bytes(TransferKind::get), 12345U);
  EXPECT_EQ(counters.started, 202U);
  EXPECT_EQ(counters.under_way, 0U);
  EXPECT_EQ(counters.endpoints, 1U);
  EXPECT_EQ(failures_of(counters), 0U);
}

TEST_F(CountersOf, EachSeriesNamesPathMemoryNicAndPeer) {
  Memory card(ends.context, MemoryType::gaudi, 1 << 16);
  const RemoteRegion there = remote(card);
  finish(ends.a->put(ours.slice(0, 64), there.slice(0, 64)));
  Transfer put = value(ends.a->put(ours.slice(0, 64), there.slice(0, 64)));
  ends.drive([&] { return put.done(); });
  const TransferReport report = put.explain();
  const Counters counters = counters_of_a();
  ASSERT_EQ(counters.transfers.size(), 1U);
  const TransferCounters& series = counters.transfers.front();
  EXPECT_EQ(series.labels.path, report.path);
  EXPECT_EQ(series.labels.local, MemoryType::host);
  EXPECT_EQ(series.labels.remote, MemoryType::gaudi);
  EXPECT_EQ(series.nic, ends.a->nic().info().name);
  EXPECT_EQ(series.peer, ends.a->peer());
  EXPECT_EQ(series.operations, 2U);
}

TEST_F(CountersOf, MessagesAreCountedAtBothEnds) {
  std::uint64_t bytes = 0;
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{10}, std::uint64_t{8000},
                                     std::uint64_t{100'000}, std::uint64_t{1 << 20}}) {
    Transfer receive = value(ends.b->receive(theirs.all()));
    Transfer send = value(ends.a->send(ours.slice(0, length)));
    ends.drive([&] { return send.done() && receive.done(); });
    EXPECT_TRUE(value(send.poll()) && value(receive.poll()));
    bytes += length;
  }
  EXPECT_EQ(sum_of(counters_of_a(), TransferKind::send), (Sum{5, bytes}));
  EXPECT_EQ(sum_of(value(ends.b->counters()), TransferKind::receive), (Sum{5, bytes}));
}

TEST_F(CountersOf, ListsAtomicsFlushesAndImmediatesHaveTheirKinds) {
  const RemoteRegion there = remote(theirs);
  const std::vector<TransferPart> parts{{ours.slice(0, 100), there.slice(0, 100)},
                                        {ours.slice(200, 50), there.slice(200, 50)}};
  PreparedTransfer puts = value(ends.a->prepare_put(parts));
  PreparedTransfer gets = value(ends.a->prepare_get(parts));
  finish(puts.post());
  finish(gets.post());
  finish(ends.a->fetch_add(there.slice(0, 8), 1));
  finish(ends.a->flush());
  Transfer receive = value(ends.b->receive_immediate(theirs.slice(0, 0)));
  finish(ends.a->put(ours.slice(0, 20), there.slice(0, 20), {.immediate = 7}));
  ends.drive([&] { return receive.done(); });
  const Counters counters = counters_of_a();
  EXPECT_EQ(sum_of(counters, TransferKind::put), (Sum{2, 170}));
  EXPECT_EQ(sum_of(counters, TransferKind::get), (Sum{1, 150}));
  EXPECT_EQ(sum_of(counters, TransferKind::atomic), (Sum{1, 8}));
  EXPECT_EQ(sum_of(counters, TransferKind::flush), (Sum{1, 0}));
  EXPECT_EQ(sum_of(value(ends.b->counters()), TransferKind::immediate).operations, 1U);
}

TEST_F(CountersOf, FlushesOfAWorkerMoveNoBytes) {
  Memory card(ends.context, MemoryType::gaudi, 1 << 16);
  finish(ends.a_worker.flush(card.all()));
  EXPECT_EQ(sum_of(value(ends.a_worker.counters()), TransferKind::flush), (Sum{1, 0}));
}

TEST_F(CountersOf, FailuresAreCountedByTheirCode) {
  Transfer receive = value(ends.a->receive(ours.slice(0, 8)));
  EXPECT_EQ(counters_of_a().under_way, 1U);
  good(receive.cancel());
  const Counters counters = counters_of_a();
  ASSERT_EQ(counters.failures.size(), 1U);
  EXPECT_EQ(counters.failures.front().code, Errc::cancelled);
  EXPECT_EQ(counters.failures.front().operations, 1U);
  EXPECT_EQ(counters.under_way, 0U);
}

TEST_F(CountersOf, WorkerAndContextKeepTheCountersOfEndedEndpoints) {
  const RemoteRegion there = remote(theirs);
  finish(ends.a->put(ours.slice(0, 100), there.slice(0, 100)));
  const std::string peer = ends.a->peer();
  keys.clear();
  ends.a.reset();
  ends.b.reset();
  const Deadline until = Deadline::after(10s);
  while (value(ends.context.counters()).endpoints != 0 && !until.passed()) {
    ends.a_worker.progress();
    ends.b_worker.progress();
  }
  const Counters worker = value(ends.a_worker.counters());
  EXPECT_EQ(worker.endpoints, 0U);
  EXPECT_EQ(sum_of(worker, TransferKind::put), (Sum{1, 100}));
  EXPECT_EQ(worker.transfers.front().peer, peer);
  EXPECT_EQ(sum_of(value(ends.context.counters()), TransferKind::put), (Sum{1, 100}));
}

TEST(CountersOfContexts, AreKeptByTheProcess) {
  const std::uint64_t before = sum_of(value(process_counters()), TransferKind::put).bytes;
  {
    Ends ends;
    Memory ours{ends.context, MemoryType::host, 4096};
    Memory theirs{ends.context, MemoryType::host, 4096};
    const MemoryKey key = value(MemoryKey::pack(theirs.region()));
    const RemoteRegion there = value(ends.a->remote(key.bytes()));
    good(value(ends.a->put(ours.all(), there.slice())).wait(10s));
    EXPECT_EQ(sum_of(value(ends.context.counters()), TransferKind::put).bytes, 4096U);
    const Context other = value(Context::create());
    EXPECT_EQ(sum_of(value(other.counters()), TransferKind::put).bytes, 0U);
  }
  const Counters after = value(process_counters());
  EXPECT_EQ(sum_of(after, TransferKind::put).bytes, before + 4096);
  EXPECT_EQ(after.endpoints, 0U);
}

TEST_F(CountersOf, OneTransferIn64IsTimed) {
  const RemoteRegion there = remote(theirs);
  for (int i = 0; i < 640; ++i) finish(ends.a->put(ours.slice(0, 8), there.slice(0, 8)));
  const Counters counters = value(ends.a_worker.counters());
  // The first transfer is timed, too.
  EXPECT_GE(timed_of(counters), 10U);
  EXPECT_LE(timed_of(counters), 11U);
  for (const TransferTimesHistogram& each : counters.times) {
    EXPECT_EQ(each.labels.kind, TransferKind::put);
    EXPECT_GT(each.sum, 0ns);
  }
  EXPECT_FALSE(value(ends.a->put(ours.slice(0, 8), there.slice(0, 8))).explain().times);
}

class TimedCounters : public CountersOf {
 protected:
  TimedCounters() : CountersOf({.times = true}) {}
};

TEST_F(TimedCounters, AreOfAllTransfers) {
  const RemoteRegion there = remote(theirs);
  for (int i = 0; i < 100; ++i) finish(ends.a->put(ours.slice(0, 8), there.slice(0, 8)));
  EXPECT_EQ(timed_of(value(ends.a_worker.counters())), 100U);
}

TEST_F(CountersOf, WaitsForRoomAreCounted) {
  const RemoteRegion there = remote(theirs);
  std::vector<Transfer> all;
  for (int i = 0; i < 400; ++i)
    all.push_back(value(ends.a->put(ours.slice(0, 8), there.slice(0, 8))));
  EXPECT_GT(counters_of_a().queued, 0U);
  EXPECT_LT(counters_of_a().queued, 400U);
  ends.drive([&] { return std::ranges::all_of(all, &Transfer::done); });
}

TEST_F(CountersOf, WaitsForThePeersReceivesAreCounted) {
  std::vector<Transfer> all;
  // More messages than the peer has places for, and none of them is received.
  for (int i = 0; i < 200; ++i) all.push_back(value(ends.a->send(ours.slice(0, 4000))));
  for (int i = 0; i < 100; ++i) ends.a_worker.progress();
  // All of them wait for the same credits.
  EXPECT_EQ(counters_of_a().credit_waits, 1U);
}

TEST_F(CountersOf, RegistrationsAndLookUpsAreCounted) {
  const RegistrationCounters before = value(process_counters()).registrations;
  {
    const auto cache =
        value(RegistrationCache::create(ends.context, value(ends.context.open_nics())));
    const std::uint64_t address = ours.region().address();
    for (int i = 0; i < 10; ++i) static_cast<void>(value(cache.get(address, 4096, kAll)));
    const RegistrationCounters now = value(process_counters()).registrations;
    EXPECT_EQ(now.hits - before.hits, 9U);
    EXPECT_EQ(now.misses - before.misses, 1U);
    EXPECT_EQ(now.live, before.live + 1);
    EXPECT_GE(now.live_bytes, before.live_bytes + 4096);
  }
  const RegistrationCounters after = value(process_counters()).registrations;
  EXPECT_EQ(after.live, before.live);
  EXPECT_EQ(after.live_bytes, before.live_bytes);
  EXPECT_EQ(after.registrations, before.registrations + 1);
  EXPECT_EQ(after.hits, before.hits + 9);  // of a cache that was destroyed
}

TEST_F(CountersOf, AnotherThreadReadsWhileTransfersGoOn) {
  const RemoteRegion there = remote(theirs);
  std::atomic<bool> over_now{false};
  std::thread reader([&] {
    std::uint64_t last = 0;
    while (!over_now) {
      const std::uint64_t bytes = sum_of(value(process_counters()), TransferKind::put).bytes;
      EXPECT_GE(bytes, last);
      last = bytes;
    }
  });
  for (int i = 0; i < 1000; ++i) finish(ends.a->put(ours.slice(0, 8), there.slice(0, 8)));
  over_now = true;
  reader.join();
}

TEST_F(CountersOf, AChildByForkCountsForItself) {
  const RemoteRegion there = remote(theirs);
  finish(ends.a->put(ours.slice(0, 100), there.slice(0, 100)));
  const pid_t child = ::fork();
  if (child == 0) {
    const auto counters = process_counters();
    const auto inherited = ends.a_worker.counters();
    const auto own = Context::create();
    ::_exit(counters && counters->transfers.empty() && counters->started == 0 && inherited &&
                    inherited->transfers.empty() && own && own->counters()
                ? 0
                : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(sum_of(counters_of_a(), TransferKind::put), (Sum{1, 100}));
}

TEST(CounterBounds, AreDoubledFromBucketToBucket) {
  EXPECT_EQ(time_bucket_bound(0), 128ns);
  EXPECT_EQ(time_bucket_bound(1), 256ns);
  EXPECT_EQ(time_bucket_bound(kTimeBuckets - 1), std::chrono::nanoseconds::max());
}

TEST(NicCounters, AreThePortsFiles) {
  const Context context = value(Context::create());
  const auto nics = value(context.nics());
  ASSERT_FALSE(nics.empty());
  const auto counters = nic_counters(nics.front().name);
  EXPECT_TRUE(std::ranges::any_of(
      counters, [](const NicCounter& each) { return each.name == "port_xmit_data"; }));
  EXPECT_TRUE(nic_counters("no_such_nic").empty());
}

/// The counters that this process publishes, read as another process reads them.
class Published : public testing::Test {
 protected:
  Published() { ::setenv("HBMWIRE_STATS", "yes", 1); }

  ~Published() override { ::unsetenv("HBMWIRE_STATS"); }
};

TEST_F(Published, CountersAreTheProcessOwn) {
  Ends ends;
  Memory ours{ends.context, MemoryType::host, 4096};
  Memory theirs{ends.context, MemoryType::host, 4096};
  const MemoryKey key = value(MemoryKey::pack(theirs.region()));
  const RemoteRegion there = value(ends.a->remote(key.bytes()));
  good(value(ends.a->put(ours.all(), there.slice())).wait(10s));
  const auto self = static_cast<std::uint32_t>(::getpid());
  const PublishedProcess process = value(PublishedProcess::find(self));
  EXPECT_TRUE(process.is_running());
  const PublishedCounters read = value(process.read());
  EXPECT_EQ(read.process, self);
  EXPECT_EQ(read.program.substr(0, 8), "endpoint");
  const Counters own = value(process_counters());
  EXPECT_EQ(sum_of(read.counters, TransferKind::put), sum_of(own, TransferKind::put));
  EXPECT_EQ(read.counters.registrations.live, own.registrations.live);
  const auto all = value(PublishedProcess::find_all());
  EXPECT_TRUE(std::ranges::any_of(all, [&](const auto& each) { return each.process() == self; }));
}

TEST_F(Published, PeersAreBoundedHoweverManyEndpointsThereAre) {
  ::setenv("HBMWIRE_STATS_PEERS", "4", 1);
  const Context context = value(Context::create({.memory = {MemoryType::host}}));
  Worker worker = value(Worker::create(context));
  Listener listener = value(Listener::create(worker, {.address = "0.0.0.0"}));
  Memory ours{context, MemoryType::host, 4096};
  const MemoryKey key = value(MemoryKey::pack(ours.region()));
  std::vector<Endpoint> ends;
  for (int i = 0; i < 1000; ++i) {
    const std::string host = "127.0.0." + std::to_string(1 + i % 250);
    const std::string at = host + ":" + std::to_string(listener.port());
    Endpoint dialed = value(Endpoint::connect(worker, at, within(10s)));
    Endpoint accepted = value(listener.accept(within(10s)));
    const RemoteRegion there = value(dialed.remote(key.bytes()));
    good(value(dialed.put(ours.slice(0, 8), there.slice(8, 8))).wait(within(10s)));
    ends.push_back(std::move(dialed));
    ends.push_back(std::move(accepted));
  }
  const auto check = [&](const Counters& counters) {
    std::set<std::string> peers;
    for (const TransferCounters& each : counters.transfers) peers.insert(each.peer);
    peers.erase("");
    // Four by their names, and all others by one.
    EXPECT_LE(peers.size(), 5U);
    EXPECT_TRUE(peers.contains("other"));
    EXPECT_EQ(sum_of(counters, TransferKind::put), (Sum{1000, 8000}));
  };
  const PublishedProcess process =
      value(PublishedProcess::find(static_cast<std::uint32_t>(::getpid())));
  check(value(process.read()).counters);
  EXPECT_EQ(value(process.read()).counters.endpoints, 2000U);
  ends.clear();
  const Deadline until = Deadline::after(20s);
  while (value(context.counters()).endpoints != 0 && !until.passed()) worker.progress();
  check(value(process.read()).counters);
  EXPECT_EQ(value(process.read()).counters.endpoints, 0U);
  ::unsetenv("HBMWIRE_STATS_PEERS");
}

TEST_F(Published, CountersOutliveAKilledProcess) {
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    {
      Ends ends;
      Memory ours{ends.context, MemoryType::host, 4096};
      Memory theirs{ends.context, MemoryType::host, 4096};
      const MemoryKey key = value(MemoryKey::pack(theirs.region()));
      const RemoteRegion there = value(ends.a->remote(key.bytes()));
      for (int i = 0; i < 77; ++i) good(value(ends.a->put(ours.all(), there.slice())).wait(10s));
      static_cast<void>(::write(told[1], "x", 1));
      ::pause();
    }
    ::_exit(0);
  }
  ::close(told[1]);  // makes the end of a failed child visible
  char byte = 0;
  ASSERT_EQ(::read(told[0], &byte, 1), 1);
  const PublishedProcess process = value(PublishedProcess::find(static_cast<std::uint32_t>(child)));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(process.is_running());
  EXPECT_EQ(sum_of(value(process.read()).counters, TransferKind::put), (Sum{77, 77 * 4096}));
  const auto gone = PublishedProcess::find(static_cast<std::uint32_t>(child));
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Errc::not_found);
  ::close(told[0]);
}

}  // namespace
}  // namespace hbmwire::test
