// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "emulation/tests/nic/child_process.hpp"
#include "emulation/tests/nic/work_request.hpp"

/// Requests in flight. Runs with --async=20ms: each request takes a random time up to that. A
/// possible effect must occur in one of many rounds at least, and a forbidden one in none.
namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;

constexpr int kRounds = 16;
constexpr std::uint32_t kBytes = 4096;

/// Fills kBytes of the buffer while the NIC may read them.
void fill(Endpoint& endpoint, unsigned char value, std::size_t offset = 0) {
  overwrite(std::span(endpoint.buffer).subspan(offset, kBytes), value);
}

TEST(Async, ARequestIsNotCompleteWhenItIsPosted) {
  Pair pair;
  int under_way = 0;
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
    ibv_wc completion{};
    if (ibv_poll_cq(pair.a.cq.get(), 1, &completion) == 1) continue;
    ++under_way;
    expect_completion(pair.a, 1);
  }
  EXPECT_GT(under_way, 0);
}

/// The program error that --async is to show: a buffer is filled again before its request
/// completes.
TEST(Async, ReusingABufferTooEarlyCorruptsItsMessage) {
  Pair pair;
  int seen = 0;
  for (int round = 0; round < kRounds; ++round) {
    fill(pair.a, 'a');
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, kBytes, pair.b.address()), 0);
    fill(pair.a, 'b');
    expect_completion(pair.a, 1);
    if (pair.b.buffer[kBytes - 1] == 'b') ++seen;
  }
  EXPECT_GT(seen, 0);
}

TEST(Async, InlineDataAreTakenWhenPosted) {
  Pair pair;
  for (int round = 0; round < kRounds; ++round) {
    fill(pair.a, 'a');
    ibv_send_wr request = rdma_request(IBV_WR_RDMA_WRITE, 1, pair.b.address());
    request.send_flags |= IBV_SEND_INLINE;
    ASSERT_EQ(pair.a.post(request, {pair.a.element(0, 64)}), 0);
    fill(pair.a, 'b');
    expect_completion(pair.a, 1);
    ASSERT_EQ(pair.b.buffer[63], 'a');
  }
}

TEST(Async, CompletionsComeInTheOrderOfTheirRequests) {
  Pair pair;
  const Address peer = pair.b.address();
  for (std::uint64_t id = 0; id < 16; ++id) {
    const ibv_wr_opcode opcode = id % 3 == 0 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    ASSERT_EQ(pair.a.rdma(opcode, id, 64 * id, 64, peer), 0);
  }
  for (std::uint64_t id = 0; id < 16; ++id) expect_completion(pair.a, id);
}

TEST(Async, MessagesArriveInTheOrderOfTheirRequests) {
  Pair pair;
  for (std::uint32_t id = 0; id < 16; ++id) {
    ASSERT_EQ(pair.b.post_recv(id, 64 * id, 64), 0);
    pair.a.buffer[64 * id] = static_cast<unsigned char>(id);
    ASSERT_EQ(pair.a.send(100 + id, 64 * id, 64), 0);
  }
  for (std::uint32_t id = 0; id < 16; ++id) {
    expect_completion(pair.b, id);
    EXPECT_EQ(pair.b.buffer[64 * id], id);
  }
}

/// The number of rounds in which a READ returns data of a WRITE posted after it.
int count_overtaken(unsigned flags) {
  Pair pair;
  const Address peer = pair.b.address();
  int overtaken = 0;
  for (int round = 0; round < kRounds; ++round) {
    fill(pair.b, 'a');
    fill(pair.a, 'b', kBytes);
    EXPECT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 1, 0, kBytes, peer), 0);
    ibv_send_wr request = rdma_request(IBV_WR_RDMA_WRITE, 2, peer);
    request.send_flags |= flags;
    EXPECT_EQ(pair.a.post(request, {pair.a.element(kBytes, kBytes)}), 0);
    expect_completion(pair.a, 1);
    if (pair.a.buffer[0] == 'b') ++overtaken;
    expect_completion(pair.a, 2);
    EXPECT_EQ(pair.b.buffer[0], 'b');
  }
  return overtaken;
}

TEST(Async, AReadIsOvertakenByAWrite) { EXPECT_GT(count_overtaken(0), 0); }

TEST(Async, AFenceWaitsForTheRead) { EXPECT_EQ(count_overtaken(IBV_SEND_FENCE), 0); }

/// The number of rounds in which a SEND carries data from before the atomic in front of it has
/// brought its answer.
int count_early(unsigned flags) {
  Pair pair;
  int early = 0;
  for (int round = 0; round < kRounds; ++round) {
    fill(pair.a, 'a');
    fill(pair.b, 'b');
    EXPECT_EQ(pair.b.post_recv(3, kBytes, 8), 0);
    ibv_send_wr request{};
    request.wr_id = 1;
    request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.atomic.remote_addr = pair.b.address().buffer;
    request.wr.atomic.rkey = pair.b.address().rkey;
    EXPECT_EQ(pair.a.post(request, {pair.a.element(0, 8)}), 0);
    EXPECT_EQ(pair.a.send(2, 0, 8, IBV_SEND_SIGNALED | flags), 0);
    expect_completion(pair.a, 1);
    expect_completion(pair.a, 2);
    expect_completion(pair.b, 3);
    if (pair.b.buffer[kBytes] == 'a') ++early;
  }
  return early;
}

TEST(Async, AnAnswerMayComeAfterLaterRequests) { EXPECT_GT(count_early(0), 0); }

TEST(Async, AFenceWaitsForTheAnswer) { EXPECT_EQ(count_early(IBV_SEND_FENCE), 0); }

TEST(Async, ASleeperIsWoken) {
  Endpoint::Options options;
  options.with_channel = true;
  Pair pair(options);
  for (int round = 0; round < 4; ++round) {
    ASSERT_EQ(ibv_req_notify_cq(pair.a.cq.get(), 0), 0);
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
    pollfd channel{pair.a.channel->fd, POLLIN, 0};
    ASSERT_EQ(::poll(&channel, 1, 20'000), 1);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(pair.a.channel.get(), &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
    ibv_wc completion{};
    EXPECT_EQ(ibv_poll_cq(pair.a.cq.get(), 1, &completion), 1);
  }
}

TEST(Async, AnErrorFlushesWhatIsOnItsWay) {
  Pair pair;
  for (std::uint64_t id = 0; id < 8; ++id)
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, 8, pair.b.address()), 0);
  ASSERT_EQ(pair.a.to(IBV_QPS_ERR), 0);
  // Some requests may succeed. All requests after the first flushed one are flushed.
  ibv_wc_status before = IBV_WC_SUCCESS;
  for (std::uint64_t id = 0; id < 8; ++id) {
    const auto completion = pair.a.wait(20s);
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->wr_id, id);
    EXPECT_TRUE(completion->status == before || completion->status == IBV_WC_WR_FLUSH_ERR);
    before = completion->status;
  }
  EXPECT_EQ(before, IBV_WC_WR_FLUSH_ERR);
}

/// The first failure is reported, even if later requests are executed before it is known.
TEST(Async, RequestsAfterAFailureAreFlushed) {
  Pair pair;
  Address wrong = pair.b.address();
  wrong.rkey ^= 0xff;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 1, 0, 8, pair.b.address()), 0);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 0, 8, wrong), 0);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 3, 0, 8, pair.b.address()), 0);
  expect_completion(pair.a, 1);
  expect_completion(pair.a, 2, IBV_WC_REM_ACCESS_ERR);
  expect_completion(pair.a, 3, IBV_WC_WR_FLUSH_ERR);
}

TEST(Async, ADrainedQueueHasNothingOnItsWay) {
  Pair pair;
  const Address peer = pair.b.address();
  for (std::uint64_t id = 0; id < 8; ++id)
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, 8, peer), 0);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_SQD;
  attributes.en_sqd_async_notify = 1;
  ASSERT_EQ(ibv_modify_qp(pair.a.qp.get(), &attributes, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
            0);
  EXPECT_EQ(pair.a.wait_event(20s), IBV_EVENT_SQ_DRAINED);
  std::array<ibv_wc, 16> completions{};
  EXPECT_EQ(ibv_poll_cq(pair.a.cq.get(), 16, completions.data()), 8);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 8, 0, 8, peer), 0);
  EXPECT_FALSE(pair.a.wait(60ms).has_value());  // a request takes 20 ms at most
  ASSERT_EQ(pair.a.to(IBV_QPS_RTS), 0);
  expect_completion(pair.a, 8);
}

TEST(Async, NoByteOfADeregisteredRegionMoves) {
  int refused = 0;
  for (int round = 0; round < 6; ++round) {
    Pair pair;
    fill(pair.a, 'a');
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, kBytes, pair.b.address()), 0);
    pair.a.mr.reset();
    const unsigned char after = pair.b.buffer[0];
    const auto completion = pair.a.wait(20s);
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(pair.b.buffer[0], after);
    if (completion->status == IBV_WC_LOC_PROT_ERR) ++refused;
  }
  EXPECT_GT(refused, 0);
}

TEST(Async, AQueuePairMayGoWithRequestsOnTheirWay) {
  for (int round = 0; round < 3; ++round) {
    Pair pair;
    for (std::uint64_t id = 0; id < 8; ++id)
      ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, 8, pair.b.address()), 0);
    pair.a.qp.reset();
    EXPECT_FALSE(pair.a.wait(1ms).has_value());
  }
}

TEST(Async, AResetForgetsWhatIsOnItsWay) {
  Pair pair;
  for (std::uint64_t id = 0; id < 16; ++id)
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, 8, pair.b.address()), 0);
  ASSERT_EQ(pair.a.to(IBV_QPS_RESET), 0);
  ASSERT_EQ(pair.b.to(IBV_QPS_RESET), 0);
  pair.a.connect(pair.b.address());
  pair.b.connect(pair.a.address());
  for (std::uint64_t id = 20; id < 36; ++id)
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, 8, pair.b.address()), 0);
  for (std::uint64_t id = 20; id < 36; ++id) expect_completion(pair.a, id);
}

TEST(Async, TheDeathOfAPeerIsReported) {
  Child child([](const Line& line) {
    Endpoint self;
    self.connect(line.exchange(self.address()));
    line.send(true);
    line.receive<bool>();
  });
  Endpoint self;
  const Address peer = child.line().exchange(self.address());
  self.connect(peer);
  child.line().receive<bool>();
  for (std::uint64_t id = 0; id < 16; ++id)
    ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, id, 0, 8, peer), 0);
  child.kill();
  child.join();
  std::optional<ibv_wc> completion;
  do {
    completion = self.wait(20s);
  } while (completion.has_value() && completion->status == IBV_WC_SUCCESS);
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->status, IBV_WC_RETRY_EXC_ERR);
}

TEST(Async, AReceiverThatIsNotReadyIsWaitedFor) {
  Pair pair({}, {}, {.rnr_retry = 7});
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  EXPECT_FALSE(pair.a.wait(60ms).has_value());
  ASSERT_EQ(pair.b.post_recv(2, 0, 8), 0);
  expect_completion(pair.a, 1);
  expect_completion(pair.b, 2);
}

TEST(Async, AReceiverThatIsNeverReadyIsAnError) {
  Pair pair({}, {}, {.rnr_retry = 1});
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  expect_completion(pair.a, 1, IBV_WC_RNR_RETRY_EXC_ERR);
}

/// An unreliable request completes when its message has left. From then on the program may reuse
/// the buffer or destroy the queue pair.
TEST(Async, ACompletedUnreliableMessageArrivesWithoutItsQueuePair) {
  Endpoint::Options options;
  options.type = IBV_QPT_UC;
  Pair pair(options, options);
  for (std::uint32_t id = 0; id < 16; ++id) {
    ASSERT_EQ(pair.b.post_recv(100 + id, 64 * id, 64), 0);
    pair.a.buffer[0] = static_cast<unsigned char>(id);
    ASSERT_EQ(pair.a.send(id, 0, 64), 0);
    expect_completion(pair.a, id);
  }
  pair.a.qp.reset();
  for (std::uint32_t id = 0; id < 16; ++id) {
    expect_completion(pair.b, 100 + id);
    EXPECT_EQ(pair.b.buffer[64 * id], id);
  }
}

TEST(Async, ASentRequestArrivesThoughItsProcessEnds) {
  constexpr std::uint32_t kMessages = 8;
  const Endpoint::Options options{.type = IBV_QPT_UC};
  Child child([&options](const Line& line) {
    Endpoint self(options);
    self.connect(line.exchange(self.address()));
    line.receive<bool>();
    for (std::uint32_t id = 0; id < kMessages; ++id) {
      ASSERT_EQ(self.send(id, 0, 64), 0);
      expect_completion(self, id);
    }
    // Runs exit handlers, which Child's own exit does not.
    std::exit(::testing::Test::HasFailure() ? 2 : 0);
  });
  Endpoint self(options);
  self.connect(child.line().exchange(self.address()));
  for (std::uint32_t id = 0; id < kMessages; ++id) ASSERT_EQ(self.post_recv(id, 64 * id, 64), 0);
  child.line().send(true);
  EXPECT_EQ(child.join(), 0);
  for (std::uint32_t id = 0; id < kMessages; ++id) expect_completion(self, id);
}

}  // namespace
}  // namespace hbmwire::test
