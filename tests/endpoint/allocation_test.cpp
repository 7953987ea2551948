// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <array>
#include <span>
#include <string>

#include "hbmwire/memory_key.hpp"
#include "hbmwire/trace.hpp"

#include "counted_allocations.hpp"
#include "ends.hpp"

namespace hbmwire::test {
namespace {

/// Drives both ends until all of `transfers` have ended. Does not call gtest meanwhile, which might
/// allocate.
bool finish(Ends& ends, std::span<Transfer> transfers) {
  for (Transfer& transfer : transfers) {
    for (int i = 0; !transfer.done(); ++i) {
      ends.a_worker.progress();
      ends.b_worker.progress();
      if (i > 100'000'000) return false;
    }
    const auto over = transfer.poll();
    if (!over) ADD_FAILURE() << describe(over.error());
    if (!over || !*over) return false;
    transfer.reset();
  }
  return true;
}

struct Tables {
  BlockTable here;
  RemoteBlockTable there;
};

/// One operation of each kind.
template <class Source, class Target>
bool run_all(Ends& ends, Source& source, Target& target, const RemoteRegion& remote,
             PreparedTransfer& prepared, const Tables& tables) {
  constexpr std::array<std::uint32_t, 3> kFrom{0, 2, 3};
  constexpr std::array<std::uint32_t, 3> kTo{7, 4, 5};
  std::array<Transfer, 18> some;
  const auto take = [](Transfer& into, Result<Transfer> result) {
    if (!result) {
      ADD_FAILURE() << describe(result.error());
      return false;
    }
    into = std::move(*result);
    return true;
  };
  const bool started =
      take(some[0], ends.a->put(source.slice(0, 8), remote.slice(0, 8))) &&
      take(some[1], ends.a->get(source.slice(0, 8), remote.slice(0, 8))) &&
      take(some[2], ends.a->fetch_add(remote.slice(64, 8), 1)) &&
      take(some[3], ends.a->put(source.slice(0, 64), remote.slice(0, 64), {.immediate = 3})) &&
      take(some[4], ends.b->receive_immediate()) &&
      take(some[5], ends.a->send(source.slice(0, 8))) &&
      take(some[6], ends.b->receive(target.slice(0, 8))) &&
      take(some[7], ends.a->send(source.slice(0, 1000), 5)) &&
      take(some[8], ends.a->send(source.slice(0, 9000), 6)) &&
      take(some[9], ends.b->receive(target.slice(0, 9000), TagMatch{6})) &&
      take(some[10], ends.b->receive(target.slice(0, 9000), TagMatch{5})) &&
      take(some[11], prepared.post()) && take(some[12], ends.b->receive_immediate()) &&
      take(some[13], ends.b->send(target.slice(0, 8), 1, {.level = CompletionLevel::arrived})) &&
      take(some[14], ends.a->receive(source.slice(0, 8), TagMatch{0, 0})) &&
      take(some[15], ends.a->flush()) &&
      take(some[16], ends.a->put_blocks(tables.here, kFrom, tables.there, kTo)) &&
      take(some[17], ends.a->get_blocks(tables.here, kTo, tables.there, kFrom));
  return started && finish(ends, some);
}

/// Runs all kinds of operations `rounds` times, and expects no allocation.
void expect_no_allocations(MemoryType type, int rounds) {
  Ends ends;
  Memory source(ends.context, MemoryType::host, 16384);
  Memory target(ends.context, type, 16384);
  const MemoryKey key = value(MemoryKey::pack(target.region()));
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
  const std::vector<TransferPart> parts{{source.slice(0, 100), remote.slice(0, 100)},
                                        {source.slice(200, 100), remote.slice(200, 100)}};
  PreparedTransfer prepared = value(ends.a->prepare_put(parts, {.immediate = 9}));
  const Tables tables{value(BlockTable::create(std::array{source.slice(0, 8192)}, 1024)),
                      value(RemoteBlockTable::create(std::array{remote.slice(0, 8192)}, 1024))};
  const auto run = [&] { return run_all(ends, source, target, remote, prepared, tables); };
  // Repeats until messages that are logged only once have been logged.
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(run());
  // The worker checks each endpoint four times a second.
  const Deadline looked_after = Deadline::after(600ms);
  while (!looked_after.passed()) {
    ends.a_worker.progress();
    ends.b_worker.progress();
  }
  bool good = true;
  CountedAllocations counted;
  for (int i = 0; i < rounds && good; ++i) good = run();
  EXPECT_EQ(counted.stop(), 0);
  EXPECT_TRUE(good);
}

// More than a million operations in all: 18 in each round, with four kinds of memory.
constexpr int kRounds = 1'000'000 / 16 / 4;

class DataPath : public ::testing::TestWithParam<MemoryType> {};

TEST_P(DataPath, AllocatesNothing) { expect_no_allocations(GetParam(), kRounds); }

TEST_P(DataPath, AllocatesNothingForATrace) {
  const std::string file = ::testing::TempDir() + "data_path_" + std::to_string(::getpid());
  const Trace trace = value(Trace::start({.file = file, .most_bytes = 1 << 20}));
  expect_no_allocations(GetParam(), kRounds / 4);
  ::unlink(file.c_str());
}

INSTANTIATE_TEST_SUITE_P(Memories, DataPath,
                         ::testing::Values(MemoryType::host, MemoryType::gaudi, MemoryType::cuda,
                                           MemoryType::rocm),
                         [](const auto& type) { return std::string(to_string(type.param)); });

}  // namespace
}  // namespace hbmwire::test
