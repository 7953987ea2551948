// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "emulation/tests/nic/endpoint.hpp"

/// Both ends of a queue pair's receive queue at once: posting and consuming do not share a lock.
namespace hbmwire::test {
namespace {

constexpr std::uint32_t kDepth = 32;

/// Each posted receive completes once and in order, if it was posted before, during or after the
/// move to ERR.
TEST(BothEnds, CompletesRequestsPostedWhileTheQpFails) {
  constexpr int kRounds = 300;
  constexpr std::uint64_t kReceives = kDepth + 8;  // the last 8 fit only after the failure
  Pair pair({}, {.depth = kDepth});
  const Address peer = pair.a.address();
  for (int round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
    std::atomic<bool> begun{false};
    std::thread poster([&] {
      for (std::uint64_t id = 0; id < kReceives && !::testing::Test::HasFailure();) {
        const int error = pair.b.post_recv(id, 0, 8);
        EXPECT_TRUE(error == 0 || error == ENOMEM) << error;
        id += error == 0 ? 1 : 0;
        if (id > kDepth / 2) begun = true;
      }
    });
    while (!begun) std::this_thread::yield();
    EXPECT_EQ(pair.b.to(IBV_QPS_ERR), 0);
    poster.join();
    for (std::uint64_t id = 0; id < kReceives; ++id)
      expect_completion(pair.b, id, IBV_WC_WR_FLUSH_ERR);
    ASSERT_EQ(pair.b.to(IBV_QPS_RESET), 0);
    ibv_wc none{};
    ASSERT_EQ(ibv_poll_cq(pair.b.cq.get(), 1, &none), 0);
    pair.b.connect(peer);
  }
}

}  // namespace
}  // namespace hbmwire::test
