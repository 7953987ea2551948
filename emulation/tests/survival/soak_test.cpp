// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "emulation/tests/nic/endpoint.hpp"
#include "emulation/tests/nic/plugin.hpp"
#include "emulation/tests/survival/length.hpp"
#include "emulation/tests/survival/storm_connector.hpp"

/// Connections that come and go for a long time leave no records or memory.
namespace hbmwire::test {
namespace {

/// The resources that this process and its fabric have.
struct Holdings {
  int descriptors;
  std::size_t mappings;
  std::uint64_t ring_bytes;
  unsigned cm_records;
  std::uint64_t state_bytes;  // the memory of the shared state
};

std::size_t count_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  std::size_t count = 0;
  while (std::getline(maps, line)) ++count;
  return count;
}

Holdings holdings() {
  struct stat status {};

  const std::string state = std::string(std::getenv("HBMWIRE_EMULATION_FABRIC")) + "/nic.shm";
  EXPECT_EQ(::stat(state.c_str(), &status), 0);
  return {open_descriptors(), count_mappings(), ring_bytes(),
          plugin_function<unsigned (*)()>("hbmwire_cm_live_records")(),
          static_cast<std::uint64_t>(status.st_blocks) * 512};
}

/// The memory that a round may add to the shared state. Its tables are sparse, and their records
/// are used in turn, so a round may be the first to use those of its queue pairs, completion queues
/// and regions.
constexpr std::uint64_t kTableBytesOfARound = 8192;

void expect_same(const Holdings& before, const Holdings& after, unsigned rounds) {
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_LE(after.mappings, before.mappings + 8);  // malloc's own mappings vary
  EXPECT_EQ(after.ring_bytes, before.ring_bytes);
  EXPECT_EQ(after.cm_records, before.cm_records);
  // All tables together, except those of rdma_cm, are smaller than this.
  constexpr std::uint64_t kTables = 64ULL << 20U;
  EXPECT_LE(after.state_bytes,
            before.state_bytes + std::min<std::uint64_t>(rounds * kTableBytesOfARound, kTables));
}

TEST(Soak, ConnectionsByVerbsLeaveNothing) {
  const Context context = open_device();
  const auto round = [](unsigned i) {
    Pair pair({.bytes = 4096}, {.bytes = 4096, .with_channel = true});
    ASSERT_EQ(pair.b.post_recv(1, 0, 64), 0);
    ASSERT_EQ(pair.a.send(i, 0, 64), 0);
    expect_completion(pair.a, i);
    expect_completion(pair.b, 1);
  };
  for (unsigned i = 0; i < 20; ++i) round(i);  // caches and pools reach their sizes
  const Holdings before = holdings();
  for (unsigned i = 0; i < kSoakRounds && !::testing::Test::HasFailure(); ++i) round(i);
  expect_same(before, holdings(), kSoakRounds);
}

TEST(Soak, ConnectionsByRdmaCmLeaveNothing) {
  const Context context = open_device();
  Board* const board = new Board{};
  Random random(1);
  Connector connector(*board, 0, random);
  const auto run_until = [&](std::uint64_t connections) {
    while (board->connections.load() < connections) connector.step();
    connector.settle();
  };
  run_until(20);
  const Holdings before = holdings();
  run_until(20 + kCmSoakRounds);
  expect_same(before, holdings(), kCmSoakRounds);
  connector.finish();
  delete board;
}

}  // namespace
}  // namespace hbmwire::test
