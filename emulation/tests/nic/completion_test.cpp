// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include "emulation/tests/nic/endpoint.hpp"

/// Completion channels and their events, and completion queues.
namespace hbmwire::test {
namespace {

/// Whether `fd` becomes readable in time.
bool readable(int fd, int patience_ms) {
  pollfd ready{fd, POLLIN, 0};
  return ::poll(&ready, 1, patience_ms) == 1;
}

/// Takes and acknowledges a completion event. Returns false if none comes.
bool take_event(Endpoint& endpoint, int patience_ms = 2000) {
  if (!readable(endpoint.channel->fd, patience_ms)) return false;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(endpoint.channel.get(), &cq, &context), 0);
  EXPECT_EQ(cq, endpoint.cq.get());
  EXPECT_EQ(context, &endpoint);
  ibv_ack_cq_events(cq, 1);
  return true;
}

TEST(CompletionChannel, WakesOncePerArming) {
  Pair pair({.with_channel = true});
  const Address peer = pair.b.address();
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, peer), 0);
  EXPECT_FALSE(take_event(pair.a, 10)) << "the CQ was not armed";
  expect_completion(pair.a, 1);
  ASSERT_EQ(ibv_req_notify_cq(pair.a.cq.get(), 0), 0);
  EXPECT_FALSE(take_event(pair.a, 10)) << "only a new completion counts";
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 0, 8, peer), 0);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 3, 0, 8, peer), 0);
  EXPECT_TRUE(take_event(pair.a));
  EXPECT_FALSE(take_event(pair.a, 10));
  for (const std::uint64_t id : {2U, 3U}) expect_completion(pair.a, id);
}

// Arming a CQ of a Mellanox HCA reports earlier completions, according to Linux' commit of
// IB_CQ_REPORT_MISSED_EVENTS. UCX needs that: it polls, arms, and sleeps without polling again.
TEST(CompletionChannel, ArmingReportsEarlierCompletions) {
  Pair pair({.with_channel = true});
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  ASSERT_EQ(ibv_req_notify_cq(pair.a.cq.get(), 0), 0);
  EXPECT_TRUE(take_event(pair.a));
  ASSERT_EQ(ibv_req_notify_cq(pair.a.cq.get(), 0), 0);
  EXPECT_FALSE(take_event(pair.a, 10)) << "this completion was reported already";
  expect_completion(pair.a, 1);
  EXPECT_FALSE(take_event(pair.a, 10));
}

TEST(CompletionChannel, SolicitedArmingReportsEarlierSolicitedCompletions) {
  Pair pair({}, {.with_channel = true});
  for (unsigned id = 10; id < 13; ++id) ASSERT_EQ(pair.b.post_recv(id, 0, 8), 0);
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(pair.b.cq.get(), 1), 0);
  EXPECT_FALSE(take_event(pair.b, 10)) << "the message was not solicited";
  ASSERT_EQ(pair.a.send(2, 0, 8, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
  EXPECT_TRUE(take_event(pair.b));
  ASSERT_EQ(pair.a.send(3, 0, 8, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
  ASSERT_EQ(ibv_req_notify_cq(pair.b.cq.get(), 1), 0);
  EXPECT_TRUE(take_event(pair.b));
}

TEST(CompletionChannel, SolicitedArmingReportsOnlySolicitedCompletionsAndErrors) {
  Pair pair({}, {.with_channel = true});
  for (unsigned id = 10; id < 14; ++id) ASSERT_EQ(pair.b.post_recv(id, 0, 8), 0);
  ASSERT_EQ(ibv_req_notify_cq(pair.b.cq.get(), 1), 0);
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  EXPECT_FALSE(take_event(pair.b, 10));
  ASSERT_EQ(pair.a.send(2, 0, 8, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
  EXPECT_TRUE(take_event(pair.b));
  ASSERT_EQ(ibv_req_notify_cq(pair.b.cq.get(), 1), 0);
  ASSERT_EQ(pair.b.to(IBV_QPS_ERR), 0);  // flushes the remaining receives, which counts as an error
  EXPECT_TRUE(take_event(pair.b));
}

TEST(CompletionChannel, MayBeNonblocking) {
  Endpoint a({.with_channel = true});
  const int flags = ::fcntl(a.channel->fd, F_GETFL);
  ASSERT_EQ(::fcntl(a.channel->fd, F_SETFL, flags | O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(a.channel.get(), &cq, &context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(CompletionChannel, ForgetsEventsOfADestroyedCq) {
  Pair pair({.with_channel = true});
  Cq other(ibv_create_cq(pair.a.context.get(), 4, nullptr, pair.a.channel.get(), 0));
  ASSERT_NE(other, nullptr);
  ASSERT_EQ(ibv_req_notify_cq(pair.a.cq.get(), 0), 0);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  ASSERT_TRUE(readable(pair.a.channel->fd, 1000));
  pair.a.qp.reset();
  pair.a.cq.reset();  // must not wait for an acknowledgement of an event that was not read
  EXPECT_FALSE(readable(pair.a.channel->fd, 10));
}

TEST(CompletionChannel, DestroyingWaitsForTheAcknowledgement) {
  Pair pair({.with_channel = true});
  ASSERT_EQ(ibv_req_notify_cq(pair.a.cq.get(), 0), 0);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(pair.a.channel.get(), &cq, &context), 0);
  pair.a.qp.reset();
  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    pair.a.cq.reset();
    destroyed = true;
  });
  usleep(20000);
  EXPECT_FALSE(destroyed);
  ibv_ack_cq_events(cq, 1);
  destroyer.join();
}

TEST(CompletionChannel, LosesNoEventWhenItIsFull) {
  // A FIFO holds 64 KiB, which is 8192 events. Arms and completes without reading until more events
  // than that are due.
  constexpr unsigned kEvents = 8300;
  Pair pair({.cq_depth = 16384, .with_channel = true});
  unsigned taken = 0;
  for (unsigned i = 0; i < kEvents; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(pair.a.cq.get(), 0), 0);
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, i, 0, 8, pair.b.address()), 0);
    expect_completion(pair.a, i);
  }
  while (take_event(pair.a, 20)) ++taken;
  EXPECT_GT(taken, 8192U) << "completions that did not fit come after the first read";
}

TEST(CompletionQueue, OverrunIsFatalToItsQps) {
  Pair pair({.cq_depth = 2});
  const Address peer = pair.b.address();
  for (unsigned i = 0; i < 3; ++i) ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, i, 0, 8, peer), 0);
  std::vector<ibv_event_type> events;
  while (const auto event = pair.a.wait_event(std::chrono::milliseconds(50)))
    events.push_back(*event);
  EXPECT_EQ(events, (std::vector<ibv_event_type>{IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL}));
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
}

/// A completion of this process' own thread in an empty CQ lies in another place than peers'
/// completions. Each bit of `pattern` is one of six completions: clear for an own one, set for one
/// of the peer.
TEST(CompletionQueue, KeepsTheOrderOfOwnCompletionsAndPeers) {
  constexpr std::uint64_t kWarm = 2000;  // until the locks favour this thread
  Pair pair;
  const Address peer = pair.b.address();
  for (std::uint64_t id = 0; id < kWarm; ++id) {
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, 8, peer), 0);
    expect_completion(pair.a, id);
  }
  for (std::uint64_t pattern = 0; pattern < 64; ++pattern) {
    constexpr int kCount = 6;
    for (std::uint64_t id = 0; id < kCount; ++id) {
      if ((pattern >> id & 1) == 0) {
        ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, 8, peer), 0);
      } else {
        ASSERT_EQ(pair.a.post_recv(id, 0, 8), 0);
        ASSERT_EQ(pair.b.send(id, 0, 8), 0);
        expect_completion(pair.b, id);
      }
    }
    ibv_wc completions[kCount] = {};
    ASSERT_EQ(ibv_poll_cq(pair.a.cq.get(), kCount, completions), kCount) << "pattern " << pattern;
    for (std::uint64_t id = 0; id < kCount; ++id) {
      EXPECT_EQ(completions[id].wr_id, id) << "pattern " << pattern;
      EXPECT_EQ(completions[id].status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(ibv_poll_cq(pair.a.cq.get(), kCount, completions), 0);
  }
}

/// The ring of each CQ lies in the memory of the CQ of the round before.
TEST(CompletionQueue, ANewOneInReusedMemoryIsEmpty) {
  for (int round = 0; round < 3; ++round) {
    Pair pair({.depth = 16, .cq_depth = 300});
    ibv_wc completion{};
    ASSERT_EQ(ibv_poll_cq(pair.a.cq.get(), 1, &completion), 0) << "round " << round;
    for (std::uint64_t id = 0; id < 10; ++id) {
      ASSERT_EQ(pair.a.post_recv(id, 0, 8), 0);
      ASSERT_EQ(pair.b.send(id, 0, 8), 0);
      expect_completion(pair.a, id);
      expect_completion(pair.b, id);
    }
  }
}

TEST(AsyncEvents, ADestroyedQpTakesItsEventsAlong) {
  Pair pair;
  Address wrong = pair.b.address();
  wrong.rkey ^= 1;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, wrong), 0);
  ASSERT_TRUE(readable(pair.b.context->async_fd, 1000));
  pair.b.qp.reset();
  EXPECT_FALSE(readable(pair.b.context->async_fd, 10));
}

TEST(CompletionQueue, ForgetsADestroyedQp) {
  Pair pair;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  pair.a.qp.reset();
  ibv_wc completion{};
  EXPECT_EQ(ibv_poll_cq(pair.a.cq.get(), 1, &completion), 0);
}

}  // namespace
}  // namespace hbmwire::test
