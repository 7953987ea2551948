// SPDX-License-Identifier: MIT
#include "hbmwire/counters.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "counters/reader.hpp"
#include "counters/store.hpp"
#include "counters/tally.hpp"

/// The memory that holds counters, and the values read from it.
namespace hbmwire::counters {
namespace {

using namespace std::chrono_literals;

constexpr TransferLabels kPut{.kind = TransferKind::put,
                              .path = Path::zero_copy,
                              .local = MemoryType::gaudi,
                              .remote = MemoryType::gaudi};
constexpr TransferLabels kGet{.kind = TransferKind::get,
                              .path = Path::staged,
                              .local = MemoryType::host,
                              .remote = MemoryType::rocm};
constexpr TransferLabels kSend{
    .kind = TransferKind::send, .path = Path::tcp, .local = MemoryType::host, .remote = {}};

/// Makes a store that counts up to `peers` peers separately. It is never destroyed, and stays
/// reachable.
Store& new_store(std::uint64_t peers = 64) {
  static auto* const all = new std::vector<Store*>;
  Store& store = *all->emplace_back(new Store);
  EXPECT_TRUE(store.begin_context({.publish = false, .peers = peers}));
  return store;
}

void count(TrafficBlock& block, const TransferLabels& labels, std::uint64_t operations,
           std::uint64_t bytes) {
  TrafficBlock::Cell& cell = cell_of(block, PackedLabels(labels));
  cell.operations.add(operations);
  cell.bytes.add(bytes);
  block.started.add(operations);
}

void fail(TrafficBlock& block, Errc code, std::uint64_t operations) {
  block.failures[static_cast<std::size_t>(code)].add(operations);
  block.started.add(operations);
}

Counters read(Store& store, const Owner& wanted = {}) {
  auto all = read_counters(store.copy(), wanted);
  EXPECT_TRUE(all.has_value());
  return all ? all->counters : Counters{};
}

TEST(CounterStore, GivesEachEndpointItsOwnCounts) {
  Store& store = new_store();
  TrafficBlock& a = store.take_traffic({.context = 1, .worker = 1, .endpoint = 1}, "emu0", "a:1");
  TrafficBlock& b = store.take_traffic({.context = 1, .worker = 1, .endpoint = 2}, "emu1", "b:1");
  count(a, kPut, 3, 300);
  count(b, kPut, 1, 7);
  fail(b, Errc::timed_out, 2);
  b.started.add(1);  // a transfer in flight
  EXPECT_EQ(read(store, {.endpoint = 1}).bytes(TransferKind::put), 300U);
  const Counters both = read(store);
  EXPECT_EQ(both.bytes(TransferKind::put), 307U);
  EXPECT_EQ(both.transfers.size(), 2U);
  ASSERT_EQ(both.failures.size(), 1U);
  EXPECT_EQ(both.failures[0].code, Errc::timed_out);
  EXPECT_EQ(both.failures[0].nic, "emu1");
  EXPECT_EQ(both.failures[0].operations, 2U);
  EXPECT_EQ(both.started, 7U);
  EXPECT_EQ(both.under_way, 1U);
  EXPECT_EQ(both.endpoints, 2U);
}

TEST(CounterStore, KeepsTheCountsOfEndedEndpointsByPeer) {
  Store& store = new_store();
  for (std::uint32_t i = 1; i <= 500; ++i) {
    TrafficBlock& block = store.take_traffic({.context = 1, .worker = 1, .endpoint = i}, "emu0",
                                             i % 2 == 0 ? "even" : "odd");
    count(block, kPut, 1, i);
    count(block, kGet, 1, 1);
    fail(block, Errc::cancelled, 1);
    store.end_endpoint(block);
  }
  const Counters counters = read(store, {.worker = 1});
  EXPECT_EQ(counters.transfers.size(), 4U);
  EXPECT_EQ(counters.bytes(TransferKind::put), 500U * 501 / 2);
  EXPECT_EQ(counters.bytes(TransferKind::get), 500U);
  EXPECT_EQ(counters.failures.size(), 2U);
  EXPECT_EQ(counters.endpoints, 0U);
  EXPECT_EQ(counters.started, 1500U);
  // 500 endpoints have used few blocks, one after the other.
  EXPECT_LE(store.copy().size(), 64 * kBlockBytes);
}

TEST(CounterStore, KeepsTheCountsOfWorkersAndContexts) {
  Store& store = new_store();
  for (std::uint32_t worker = 1; worker <= 3; ++worker) {
    TrafficBlock& own = store.take_traffic({.context = 1, .worker = worker}, {}, {});
    count(own, kSend, 1, 10);
    TrafficBlock& block =
        store.take_traffic({.context = 1, .worker = worker, .endpoint = worker}, "emu0", "p");
    count(block, kPut, 1, 100);
    store.end_endpoint(block);
    EXPECT_EQ(read(store, {.worker = worker}).bytes(TransferKind::put), 100U);
    store.end_worker(worker);
    EXPECT_EQ(read(store, {.worker = worker}).transfers.size(), 0U);
  }
  EXPECT_EQ(read(store, {.context = 1}).bytes(TransferKind::put), 300U);
  EXPECT_EQ(read(store, {.context = 2}).bytes(TransferKind::put), 0U);
  store.end_context(1);
  EXPECT_EQ(read(store, {.context = 1}).transfers.size(), 0U);
  const Counters all = read(store);
  EXPECT_EQ(all.bytes(TransferKind::put), 300U);
  EXPECT_EQ(all.bytes(TransferKind::send), 30U);
  EXPECT_EQ(all.transfers.size(), 2U);
}

TEST(CounterStore, LimitsTheNumberOfPeersThatAreCounted) {
  Store& store = new_store(4);
  for (std::uint32_t i = 1; i <= 1000; ++i) {
    TrafficBlock& block = store.take_traffic({.context = 1, .worker = 1, .endpoint = i}, "emu0",
                                             "10.0.0." + std::to_string(i));
    count(block, kPut, 1, 8);
    if (i % 3 == 0) store.end_endpoint(block);
  }
  std::set<std::string> peers;
  const Counters counters = read(store);
  for (const TransferCounters& each : counters.transfers) peers.insert(each.peer);
  EXPECT_EQ(peers,
            (std::set<std::string>{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "other"}));
  EXPECT_EQ(counters.bytes(TransferKind::put), 8000U);
}

TEST(CounterStore, TellsReadersThatCountsChange) {
  Store& store = new_store();
  TrafficBlock& block = store.take_traffic({.context = 1, .worker = 1, .endpoint = 1}, "n", "p");
  const std::uint64_t before = changes_of(store.copy());
  store.end_endpoint(block);
  EXPECT_EQ(before % 2, 0U);  // the number is odd only while counts move
  EXPECT_EQ(changes_of(store.copy()), before + 2);
}

TEST(CounterStore, CutsLongNames) {
  Store& store = new_store();
  const std::string nic(100, 'n');
  const std::string peer(100, 'p');
  count(store.take_traffic({.context = 1, .worker = 1, .endpoint = 1}, nic, peer), kPut, 1, 1);
  const Counters counters = read(store);
  ASSERT_EQ(counters.transfers.size(), 1U);
  // A block has room for 24 bytes of the NIC's name, and for 72 of the peer's.
  EXPECT_EQ(counters.transfers[0].nic, nic.substr(0, 24));
  EXPECT_EQ(counters.transfers[0].peer, peer.substr(0, 72));
}

TEST(CounterStore, HasTheSameCountsOncePublished) {
  Store& store = new_store();
  std::vector<TrafficBlock*> blocks;
  // The blocks of 200 endpoints do not fit into one segment of the store.
  for (std::uint32_t i = 1; i <= 200; ++i) {
    blocks.push_back(
        &store.take_traffic({.context = 1, .worker = 1, .endpoint = i}, "emu0", "peer"));
    count(*blocks.back(), kPut, 1, i);
  }
  ASSERT_TRUE(store.begin_context({.publish = true, .peers = 1}));
  const auto self = PublishedProcess::find(static_cast<std::uint32_t>(::getpid()));
  ASSERT_TRUE(self);
  EXPECT_EQ(self->read()->counters.bytes(TransferKind::put), 200U * 201 / 2);
  for (TrafficBlock* const block : blocks) count(*block, kPut, 1, 1);
  // Blocks that are made after the publication are in the file, too.
  for (std::uint32_t i = 201; i <= 400; ++i) {
    count(store.take_traffic({.context = 1, .worker = 1, .endpoint = i}, "emu0", "peer"), kPut, 1,
          1);
  }
  EXPECT_EQ(self->read()->counters.bytes(TransferKind::put), 200U * 201 / 2 + 400);
  EXPECT_EQ(read(store).bytes(TransferKind::put), 200U * 201 / 2 + 400);
}

TEST(TrafficCells, WithoutAFreeCellBytesAreCountedUnderTheirKind) {
  TrafficBlock block;
  std::size_t made = 0;
  for (const MemoryType local : kMemoryTypes) {
    for (const MemoryType remote : kMemoryTypes) {
      count(block,
            {.kind = made % 2 == 0 ? TransferKind::put : TransferKind::get,
             .path = Path::staged,
             .local = local,
             .remote = remote},
            1, 10);
      ++made;
    }
  }
  ASSERT_GT(made, TrafficBlock::kCells);
  std::uint64_t bytes[2] = {0, 0};
  for (const TrafficBlock::Cell& cell : block.cells) {
    TransferLabels labels;
    ASSERT_TRUE(PackedLabels(cell.labels.value()).unpack(labels));
    bytes[labels.kind == TransferKind::put ? 0 : 1] += cell.bytes.value();
  }
  EXPECT_EQ(bytes[0], (made + 1) / 2 * 10);
  EXPECT_EQ(bytes[1], made / 2 * 10);
}

TEST(TrafficCells, AreFoundByTheirKey) {
  TrafficBlock block;
  int asked = 0;
  const auto labels_of = [&](const TransferLabels& labels) {
    return [&asked, labels] {
      ++asked;
      return labels;
    };
  };
  for (int i = 0; i < 5; ++i) {
    tally(block, 11, 100, labels_of(kPut));
    tally(block, 22, 1, labels_of(kGet));
    // Another key with the same labels. It gets no cell, so tally() asks for its labels each time.
    tally(block, 33, 1, labels_of(kGet));
  }
  EXPECT_EQ(block.cells[0].bytes.value(), 500U);
  EXPECT_EQ(block.cells[1].bytes.value(), 10U);
  EXPECT_EQ(block.cells[2].labels.value(), 0U);
  EXPECT_EQ(asked, 7) << "once for each of two keys with a cell, and five times for the third";
}

TEST(TimesBlocks, HaveBucketsOfPowersOfTwo) {
  Store& store = new_store();
  TimesBlock& block = store.take_times({.context = 1, .worker = 1});
  TimesBlock* const blocks[] = {&block};
  for (const std::uint64_t ns : {0ULL, 1ULL, 128ULL, 129ULL, 256ULL, 257ULL, ~0ULL})
    tally_time(blocks, PackedLabels(kPut), ns);
  const Counters counters = read(store);
  ASSERT_EQ(counters.times.size(), 1U);
  const TransferTimesHistogram& times = counters.times[0];
  // Bucket 0 ends at 128 ns, and each further one at twice the time.
  EXPECT_EQ(times.transfers[0], 3U);
  EXPECT_EQ(times.transfers[1], 2U);
  EXPECT_EQ(times.transfers[2], 1U);
  EXPECT_EQ(times.transfers[kTimeBuckets - 1], 1U);
  EXPECT_EQ(times.count(), 7U);
}

TEST(TimesBlocks, DropSeriesThatHaveNoRoom) {
  Store& store = new_store();
  TimesBlock& block = store.take_times({.context = 1, .worker = 1});
  TimesBlock* const blocks[] = {&block};
  for (const MemoryType local : kMemoryTypes) {
    TransferLabels labels = kPut;
    labels.local = local;
    tally_time(blocks, PackedLabels(labels), 1000);
  }
  EXPECT_EQ(read(store).times.size(), TimesBlock::kSeries);
}

TEST(TimesBlocks, BlocksOfEndedWorkersAreJoined) {
  Store& store = new_store();
  for (std::uint32_t worker = 1; worker <= 100; ++worker) {
    TimesBlock* const blocks[] = {&store.take_times({.context = 1, .worker = worker}),
                                  &store.take_times({.context = 1, .worker = worker})};
    for (const TransferLabels& labels : {kPut, kGet, kSend})
      tally_time(blocks, PackedLabels(labels), 1000);
    TransferLabels own = kPut;
    own.local = kMemoryTypes[worker % kMemoryTypes.size()];
    tally_time(blocks, PackedLabels(own), 1000);
    store.end_worker(worker);
  }
  const Counters counters = read(store);
  std::uint64_t timed = 0;
  std::chrono::nanoseconds sum{0};
  for (const TransferTimesHistogram& each : counters.times) {
    timed += each.count();
    sum += each.sum;
  }
  EXPECT_EQ(timed, 400U);
  EXPECT_EQ(sum, 400'000ns);
  // The series are one of puts for each type of memory, one of gets, and one of sends.
  EXPECT_EQ(counters.times.size(), 2 + kMemoryTypes.size());
  EXPECT_LE(store.copy().size(), 64 * kBlockBytes);
}

/// Bytes that another process may have written.
class CounterBytes : public testing::Test {
 protected:
  CounterBytes() : bytes(new_store().copy()) {}

  template <class Block>
  void put(std::size_t index, const Block& block) {
    std::memcpy(&bytes[index * kBlockBytes], &block, sizeof block);
  }

  template <class T>
  void put_first(std::size_t offset, const T& value) {
    std::memcpy(&bytes[offset], &value, sizeof value);
  }

  std::vector<std::byte> bytes;
};

TEST_F(CounterBytes, AreOfTheProcess) {
  EXPECT_EQ(process_of(bytes), static_cast<std::uint32_t>(::getpid()));
  const auto read = read_counters(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->process, static_cast<std::uint32_t>(::getpid()));
  EXPECT_LE(read->since, std::chrono::system_clock::now());
}

TEST_F(CounterBytes, AnotherLayoutIsReported) {
  put_first(offsetof(ProcessBlock, layout), kLayout + 1);
  const auto read = read_counters(bytes);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::protocol);
  EXPECT_EQ(read.error().hint, Hint::other_version);
  EXPECT_EQ(process_of(bytes), static_cast<std::uint32_t>(::getpid()));
}

TEST_F(CounterBytes, BytesWithAnotherBeginningAreNoCounters) {
  put_first(offsetof(ProcessBlock, magic), kMagic + 1);
  EXPECT_FALSE(read_counters(bytes));
  EXPECT_EQ(process_of(bytes), 0U);
  bytes.resize(kBlockBytes - 1);
  EXPECT_FALSE(read_counters(bytes));
  EXPECT_EQ(process_of(bytes), 0U);
  EXPECT_EQ(changes_of(bytes), 0U);
}

TEST_F(CounterBytes, HavePrintableText) {
  TrafficBlock block;
  block.head.type = BlockType::traffic;
  count(block, kPut, 1, 1);
  std::ranges::copy(std::string("a\n\x1b[2J\xff\"\\"), block.peer.begin());
  block.nic.fill('n');  // without a terminating zero
  put(1, block);
  const auto read = read_counters(bytes);
  ASSERT_TRUE(read);
  ASSERT_EQ(read->counters.transfers.size(), 1U);
  EXPECT_EQ(read->counters.transfers[0].peer, "a??[2J?\"\\");
  EXPECT_EQ(read->counters.transfers[0].nic, std::string(24, 'n'));
}

TEST_F(CounterBytes, CountersWithImpossibleLabelsAreLeftOut) {
  TrafficBlock block;
  block.head.type = BlockType::traffic;
  const std::uint64_t good = PackedLabels(kPut).word();
  const std::uint64_t wrong[] = {good + 0xff,          good | 0xff00,      good | 0xff0000,
                                 good ^ (1ULL << 32U), good | 1ULL << 33U, good + (0x10ULL << 24U)};
  for (std::size_t i = 0; i < std::size(wrong); ++i) {
    block.cells[i].labels.set(wrong[i]);
    block.cells[i].operations.add(1);
  }
  put(1, block);
  const auto read = read_counters(bytes);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->counters.transfers.empty());
}

TEST_F(CounterBytes, HaveTimesThatADurationHolds) {
  TimesBlock block;
  block.head.type = BlockType::times;
  block.series[0].labels.set(PackedLabels(kPut).word());
  block.series[0].sum_ns.set(std::numeric_limits<std::uint64_t>::max());
  put(1, block);
  put(2, block);  // the sum of both exceeds a duration
  put_first(offsetof(ProcessBlock, since_ns), std::numeric_limits<std::int64_t>::min());
  const auto read = read_counters(bytes);
  ASSERT_TRUE(read);
  ASSERT_EQ(read->counters.times.size(), 1U);
  EXPECT_EQ(read->counters.times[0].sum, std::chrono::nanoseconds::max());
  EXPECT_EQ(read->since.time_since_epoch(), 0ns);
}

TEST_F(CounterBytes, ManyPeersAreReadInTime) {
  constexpr std::size_t kPeers = 20'000;
  bytes.resize((kPeers + 1) * kBlockBytes);
  TrafficBlock block;
  block.head.type = BlockType::traffic;
  count(block, kPut, 1, 1);
  for (std::size_t i = 1; i <= kPeers; ++i) {
    std::ranges::copy(std::to_string(i), block.peer.begin());
    put(i, block);
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto read = read_counters(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->counters.transfers.size(), kPeers);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

}  // namespace
}  // namespace hbmwire::counters
