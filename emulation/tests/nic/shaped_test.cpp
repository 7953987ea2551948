// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <chrono>

#include "emulation/tests/nic/endpoint.hpp"

/// Rates and latencies. Runs with --rate 1G --latency 5ms. Tests check only that a request takes no
/// less than its time, because the machine may add to it.
namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kBytes = 1'250'000;  // 10 ms at 1 Gbit/s
constexpr auto kWire = 10ms;
constexpr auto kLatency = 5ms;

Endpoint::Options large() {
  Endpoint::Options options;
  options.bytes = kBytes;
  return options;
}

TEST(Shaped, AWriteTakesItsBytesAndARoundTrip) {
  Pair pair(large(), large());
  const auto begin = Clock::now();
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, kBytes, pair.b.address()), 0);
  expect_completion(pair.a, 1);
  EXPECT_GE(Clock::now() - begin, kWire + 2 * kLatency);
}

TEST(Shaped, AReadTakesItsBytesAndARoundTrip) {
  Pair pair(large(), large());
  const auto begin = Clock::now();
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 1, 0, kBytes, pair.b.address()), 0);
  expect_completion(pair.a, 1);
  EXPECT_GE(Clock::now() - begin, kWire + 2 * kLatency);
}

TEST(Shaped, RequestsOfAQueueFollowEachOther) {
  Pair pair(large(), large());
  const auto begin = Clock::now();
  for (std::uint64_t id = 0; id < 4; ++id)
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, kBytes, pair.b.address()), 0);
  for (std::uint64_t id = 0; id < 4; ++id) expect_completion(pair.a, id);
  EXPECT_GE(Clock::now() - begin, 4 * kWire + 2 * kLatency);
}

TEST(Shaped, AMessageArrivesAfterOneLatency) {
  Pair pair;
  ASSERT_EQ(pair.b.post_recv(1, 0, 8), 0);
  const auto begin = Clock::now();
  ASSERT_EQ(pair.a.send(2, 0, 8), 0);
  expect_completion(pair.b, 1);
  EXPECT_GE(Clock::now() - begin, kLatency);
  expect_completion(pair.a, 2);
  EXPECT_GE(Clock::now() - begin, 2 * kLatency);
}

TEST(Shaped, AnUnreliableMessageIsCompleteWhenItHasLeftAndArrivesLater) {
  Endpoint::Options options;
  options.type = IBV_QPT_UC;
  Pair pair(options, options);
  ASSERT_EQ(pair.b.post_recv(1, 0, 8), 0);
  const auto begin = Clock::now();
  ASSERT_EQ(pair.a.send(2, 0, 8), 0);
  expect_completion(pair.b, 1);
  EXPECT_GE(Clock::now() - begin, kLatency);
  expect_completion(pair.a, 2);
}

/// The bytes of both connections pass the same direction of one port.
TEST(Shaped, TwoQueuePairsShareAPort) {
  Pair one(large(), large());
  Pair other(large(), large());
  const auto begin = Clock::now();
  ASSERT_EQ(one.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, kBytes, one.b.address()), 0);
  ASSERT_EQ(other.a.rdma(IBV_WR_RDMA_WRITE, 2, 0, kBytes, other.b.address()), 0);
  expect_completion(one.a, 1);
  expect_completion(other.a, 2);
  EXPECT_GE(Clock::now() - begin, 2 * kWire + 2 * kLatency);
}

/// A port that receives from two others takes in one message at a time.
TEST(Shaped, TwoSendersShareTheirReceiversPort) {
  Endpoint::Options second = large();
  second.device = "emu1";
  Pair one(large(), large());
  Pair other(second, large());
  const auto begin = Clock::now();
  ASSERT_EQ(one.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, kBytes, one.b.address()), 0);
  ASSERT_EQ(other.a.rdma(IBV_WR_RDMA_WRITE, 2, 0, kBytes, other.b.address()), 0);
  expect_completion(one.a, 1);
  expect_completion(other.a, 2);
  EXPECT_GE(Clock::now() - begin, 2 * kWire + 2 * kLatency);
}

}  // namespace
}  // namespace hbmwire::test
