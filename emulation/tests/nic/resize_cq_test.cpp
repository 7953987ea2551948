// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <thread>

#include "emulation/tests/nic/endpoint.hpp"

/// man ibv_resize_cq.
namespace hbmwire::test {
namespace {

/// Leaves `count` completions with wr_ids from `first` on in a's CQ.
void complete(Pair& pair, std::uint64_t first, std::uint64_t count) {
  const Address peer = pair.b.address();
  for (std::uint64_t id = first; id < first + count; ++id)
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, 8, peer), 0);
}

/// Takes `count` completions with wr_ids from `first` on out of a's CQ.
void expect_ids(Pair& pair, std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t id = first; id < first + count; ++id) expect_completion(pair.a, id);
}

TEST(ResizeCq, GrowingKeepsTheEntries) {
  Pair pair({.depth = 64, .cq_depth = 4});
  complete(pair, 0, 3);
  expect_ids(pair, 0, 3);
  complete(pair, 3, 4);  // these lie at the end and the beginning of the ring
  ASSERT_EQ(ibv_resize_cq(pair.a.cq.get(), 32), 0);
  EXPECT_GE(pair.a.cq->cqe, 32);
  complete(pair, 7, 28);
  expect_ids(pair, 3, 32);
}

TEST(ResizeCq, ShrinksToTheNumberOfItsEntries) {
  Pair pair({.depth = 64, .cq_depth = 1000});
  complete(pair, 0, 5);
  EXPECT_EQ(ibv_resize_cq(pair.a.cq.get(), 4), EINVAL);
  EXPECT_EQ(pair.a.cq->cqe, 1000);
  ASSERT_EQ(ibv_resize_cq(pair.a.cq.get(), 5), 0);
  EXPECT_EQ(pair.a.cq->cqe, 5);
  expect_ids(pair, 0, 5);
  complete(pair, 5, 5);
  expect_ids(pair, 5, 5);
}

TEST(ResizeCq, RefusesSizesBeyondTheLimits) {
  Endpoint a;
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(a.context.get(), &limits), 0);
  for (const int wrong : {0, -1, limits.max_cqe + 1}) {
    EXPECT_EQ(ibv_resize_cq(a.cq.get(), wrong), EINVAL) << wrong;
    EXPECT_EQ(a.cq->cqe, 64);
  }
  EXPECT_EQ(ibv_resize_cq(a.cq.get(), limits.max_cqe), 0);
  EXPECT_EQ(a.cq->cqe, limits.max_cqe);
  fail_nth_call(0, ENOMEM);
  EXPECT_EQ(ibv_resize_cq(a.cq.get(), 10), ENOMEM);
  fail_nth_call(-1, 0);
}

TEST(ResizeCq, MovesTheBoundOfOverruns) {
  Pair pair({.depth = 64, .cq_depth = 4});
  ASSERT_EQ(ibv_resize_cq(pair.a.cq.get(), 8), 0);
  complete(pair, 0, 8);
  EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
  complete(pair, 8, 1);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
}

TEST(ResizeCq, KeepsItsArming) {
  Pair pair({.with_channel = true});
  ASSERT_EQ(ibv_req_notify_cq(pair.a.cq.get(), 0), 0);
  ASSERT_EQ(ibv_resize_cq(pair.a.cq.get(), 500), 0);
  complete(pair, 1, 1);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(pair.a.channel.get(), &cq, &context), 0);
  EXPECT_EQ(cq, pair.a.cq.get());
  ibv_ack_cq_events(cq, 1);
  expect_completion(pair.a, 1);
}

/// The first entry of an empty CQ lies in front of its ring, and the next ones in it. Each step
/// begins at another place of the ring, resizes the CQ while it has entries, and fills it up.
TEST(ResizeCq, KeepsOrderWhereverEntriesLie) {
  constexpr int kSmall = 16;
  constexpr int kLarge = 64;
  constexpr std::uint64_t kWarm = 2000;  // until the locks favour this thread
  Pair pair({.depth = 64, .cq_depth = kSmall});
  std::uint64_t id = 0;
  const auto one_by_one = [&](std::uint64_t count) {
    for (const std::uint64_t end = id + count; id < end; ++id) {
      complete(pair, id, 1);
      expect_ids(pair, id, 1);
    }
  };
  one_by_one(kWarm);
  for (std::uint64_t step = 0; step < 40 && !::testing::Test::HasFailure(); ++step) {
    one_by_one(step);
    const std::uint64_t kept = step % kSmall + 1;
    complete(pair, id, kept);
    const bool grows = step % 2 == 0;
    ASSERT_EQ(ibv_resize_cq(pair.a.cq.get(), grows ? kLarge : kSmall), 0);
    const std::uint64_t room = (grows ? kLarge : kSmall) - kept;
    complete(pair, id + kept, room);
    expect_ids(pair, id, kept + room);
    id += kept + room;
    ASSERT_EQ(pair.a.state(), IBV_QPS_RTS) << "the CQ has overrun";
  }
}

TEST(ResizeCq, DoesNotDisturbCompletingAndPolling) {
  constexpr std::uint64_t kCount = 20000;
  Pair pair({.depth = 64, .cq_depth = 64});
  std::atomic<bool> done{false};
  std::atomic<int> rounds{0};
  std::thread resizer([&] {
    for (int depth = 64; !done; depth = depth == 64 ? 5000 : 64) {
      EXPECT_EQ(ibv_resize_cq(pair.a.cq.get(), depth), 0);
      ++rounds;
      ::sched_yield();
    }
  });
  const Address peer = pair.b.address();
  for (std::uint64_t id = 0; (id < kCount || rounds < 50) && !::testing::Test::HasFailure(); ++id) {
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, 8, peer), 0);
    expect_completion(pair.a, id);
  }
  done = true;
  resizer.join();
}

/// A peer's process adds receive completions to the CQ while it is resized.
TEST(ResizeCq, DoesNotDisturbOtherProcesses) {
  constexpr std::uint32_t kCount = 3000;
  int to_child[2];
  int to_parent[2];
  ASSERT_EQ(::pipe(to_child), 0);
  ASSERT_EQ(::pipe(to_parent), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(to_child[1]);
    Endpoint self;
    const Address mine = self.address();
    Address peer;
    bool sound = ::write(to_parent[1], &mine, sizeof mine) == sizeof mine &&
                 ::read(to_child[0], &peer, sizeof peer) == sizeof peer;
    self.connect(peer, {.timeout = 14, .retry_count = 7, .rnr_retry = 7});
    char go = 0;
    sound = sound && ::read(to_child[0], &go, 1) == 1;
    for (std::uint32_t id = 0; sound && id < kCount; ++id) {
      sound = self.send(id, 0, 8) == 0;
      const auto completion = self.wait();
      sound = sound && completion && completion->status == IBV_WC_SUCCESS;
    }
    ::_exit(sound ? 0 : 1);
  }
  Endpoint self({.depth = 32});
  const Address mine = self.address();
  Address peer;
  ASSERT_EQ(::read(to_parent[0], &peer, sizeof peer), static_cast<ssize_t>(sizeof peer));
  ASSERT_EQ(::write(to_child[1], &mine, sizeof mine), static_cast<ssize_t>(sizeof mine));
  self.connect(peer);
  for (std::uint32_t id = 0; id < 32; ++id) ASSERT_EQ(self.post_recv(id, 0, 8), 0);
  ASSERT_EQ(::write(to_child[1], "g", 1), 1);
  for (std::uint32_t id = 0; id < kCount && !::testing::Test::HasFailure(); ++id) {
    expect_completion(self, id);
    ASSERT_EQ(self.post_recv(id + 32, 0, 8), 0);
    ASSERT_EQ(ibv_resize_cq(self.cq.get(), id % 2 == 0 ? 300 : 40), 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(fd);
}

}  // namespace
}  // namespace hbmwire::test
