// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "emulation/tests/nic/emulated_card.hpp"

/// --like-hardware=scatter: a message of up to 32 bytes stays in its completion until polled.
namespace hbmwire::test {
namespace {

constexpr std::uint32_t kMost = 32;  // bytes of a message in its completion

/// Tests look at b's buffer before they wait for its completion, because waiting polls.
class Scatter : public testing::Test {
 protected:
  static void fill(Endpoint& at) { std::memset(at.buffer.data(), 'n', 256); }

  static void send(Endpoint& from, std::uint32_t length) {
    ASSERT_EQ(from.send(1, 0, length), 0);
    expect_completion(from, 1);
  }
};

TEST_F(Scatter, AReceiveIsUntouchedUntilItIsPolled) {
  Pair pair;
  fill(pair.a);
  ASSERT_EQ(pair.b.post_recv(2, 1000, 64), 0);
  send(pair.a, kMost);
  EXPECT_EQ(pair.b.buffer[1000], 0);
  EXPECT_EQ(expect_completion(pair.b, 2).byte_len, kMost);
  EXPECT_EQ(pair.b.buffer[1000], 'n');
  EXPECT_EQ(pair.b.buffer[1000 + kMost - 1], 'n');
  EXPECT_EQ(pair.b.buffer[1000 + kMost], 0);
}

TEST_F(Scatter, ALongerMessageIsPlacedByTheNic) {
  Pair pair;
  fill(pair.a);
  ASSERT_EQ(pair.b.post_recv(2, 1000, 64), 0);
  send(pair.a, kMost + 1);
  EXPECT_EQ(pair.b.buffer[1000], 'n');
  expect_completion(pair.b, 2);
}

TEST_F(Scatter, WritesGoToMemory) {
  Pair pair;
  fill(pair.a);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address(), 1000), 0);
  expect_completion(pair.a, 1);
  EXPECT_EQ(pair.b.buffer[1000], 'n');
}

TEST_F(Scatter, ElementsAreFilledInTheirOrder) {
  Pair pair;
  for (unsigned i = 0; i < kMost; ++i) pair.a.buffer[i] = static_cast<unsigned char>(i + 1);
  std::vector<ibv_sge> elements{pair.b.element(100, 5), pair.b.element(200, 0),
                                pair.b.element(300, 20), pair.b.element(400, 50)};
  ibv_recv_wr receive{};
  receive.wr_id = 2;
  receive.sg_list = elements.data();
  receive.num_sge = 4;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(pair.b.qp.get(), &receive, &bad), 0);
  send(pair.a, kMost);
  expect_completion(pair.b, 2);
  EXPECT_EQ(pair.b.buffer[104], 5);
  EXPECT_EQ(pair.b.buffer[105], 0);
  EXPECT_EQ(pair.b.buffer[300], 6);
  EXPECT_EQ(pair.b.buffer[319], 25);
  EXPECT_EQ(pair.b.buffer[400], 26);
  EXPECT_EQ(pair.b.buffer[406], 32);
  EXPECT_EQ(pair.b.buffer[407], 0);
}

TEST_F(Scatter, AReceiveOfASharedQueueIsUntouchedUntilItIsPolled) {
  Pair pair{{}, {.srq_depth = 4}};
  fill(pair.a);
  ASSERT_EQ(pair.b.post_srq_recv(2, 1000, 64), 0);
  send(pair.a, 8);
  EXPECT_EQ(pair.b.buffer[1000], 0);
  expect_completion(pair.b, 2);
  EXPECT_EQ(pair.b.buffer[1000], 'n');
}

TEST_F(Scatter, AReceiveOfAnUnreliableConnectionIsUntouchedUntilItIsPolled) {
  Pair pair{{.type = IBV_QPT_UC}, {.type = IBV_QPT_UC}};
  fill(pair.a);
  ASSERT_EQ(pair.b.post_recv(2, 1000, 64), 0);
  send(pair.a, 8);
  EXPECT_EQ(pair.b.buffer[1000], 0);
  expect_completion(pair.b, 2);
  EXPECT_EQ(pair.b.buffer[1000], 'n');
}

TEST_F(Scatter, AReceiveInAnExtendedCqIsUntouchedUntilItIsPolled) {
  Pair pair;
  fill(pair.a);
  ibv_cq_init_attr_ex attributes{};
  attributes.cqe = 16;
  ibv_cq_ex* extended = ibv_create_cq_ex(pair.b.context.get(), &attributes);
  ASSERT_NE(extended, nullptr);
  pair.b.qp.reset();
  pair.b.cq.reset(ibv_cq_ex_to_cq(extended));
  pair.b.next_qp();
  ASSERT_EQ(pair.a.to(IBV_QPS_RESET), 0);
  pair.a.connect(pair.b.address());
  pair.b.connect(pair.a.address());
  ASSERT_EQ(pair.b.post_recv(2, 1000, 64), 0);
  send(pair.a, 8);
  EXPECT_EQ(pair.b.buffer[1000], 0);
  ibv_poll_cq_attr nothing{};
  ASSERT_EQ(ibv_start_poll(extended, &nothing), 0);
  EXPECT_EQ(extended->wr_id, 2U);
  EXPECT_EQ(pair.b.buffer[1000], 'n');
  ibv_end_poll(extended);
}

/// READs and atomics of a queue pair whose requests are all signaled.
TEST_F(Scatter, FetchedBytesStayInTheirCompletionUntilItIsPolled) {
  for (const bool all_signaled : {true, false}) {
    Pair pair{{.signal_all = all_signaled}, {}};
    fill(pair.b);
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 1, 500, 16, pair.b.address()), 0);
    EXPECT_EQ(pair.a.buffer[500], all_signaled ? 0 : 'n');
    expect_completion(pair.a, 1);
    EXPECT_EQ(pair.a.buffer[500], 'n');
    EXPECT_EQ(pair.a.buffer[515], 'n');
    EXPECT_EQ(pair.a.buffer[516], 0);

    ibv_send_wr atomic{};
    atomic.wr_id = 2;
    atomic.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    atomic.send_flags = IBV_SEND_SIGNALED;
    atomic.wr.atomic.remote_addr = (pair.b.address().buffer + 7) & ~7ULL;  // aligned
    atomic.wr.atomic.rkey = pair.b.address().rkey;
    ASSERT_EQ(pair.a.post(atomic, {pair.a.element(600, 8)}), 0);
    EXPECT_EQ(pair.a.buffer[600], all_signaled ? 0 : 'n');
    expect_completion(pair.a, 2);
    EXPECT_EQ(pair.a.buffer[600], 'n');
  }
}

TEST_F(Scatter, TheEnvironmentSwitchesItOff) {
  ::setenv("MLX5_SCATTER_TO_CQE", "0", 1);
  Pair pair{{.signal_all = true}, {}};
  ::unsetenv("MLX5_SCATTER_TO_CQE");
  fill(pair.a);
  ASSERT_EQ(pair.b.post_recv(2, 1000, 64), 0);
  send(pair.a, 8);
  EXPECT_EQ(pair.b.buffer[1000], 'n');
  expect_completion(pair.b, 2);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 1, 500, 16, pair.b.address(), 1000), 0);
  EXPECT_EQ(pair.a.buffer[500], 'n');
}

/// Completions that are not polled are dropped with their queue pair, and their messages too.
TEST_F(Scatter, QueuePairsReturnUnpolledEntries) {
  Endpoint b({.depth = 256, .cq_depth = 1024});
  for (int round = 0; round < 100; ++round) {
    Endpoint a({.bytes = 4096});
    fill(a);
    b.connect(a.address());
    a.connect(b.address());
    for (unsigned i = 0; i < 250; ++i) {
      ASSERT_EQ(b.post_recv(i, 1000, 64), 0);
      send(a, 8);
    }
    ASSERT_EQ(b.buffer[1000], 0) << "round " << round;
    const Qp before = b.next_qp();
  }
}

/// Polling stores to the receive's address, as mlx5 does. The address of a card's memory is not an
/// address of this process.
TEST_F(Scatter, PollingASmallReceiveInACardsMemoryIsFatal) {
  EXPECT_DEATH(
      {
        const EmulatedCard card;
        Pair pair;
        const Mr mr = card.register_at(pair.b);
        ibv_sge into = element_of(mr, 0, 64);
        ibv_recv_wr receive{};
        receive.sg_list = &into;
        receive.num_sge = 1;
        ibv_recv_wr* bad = nullptr;
        ibv_post_recv(pair.b.qp.get(), &receive, &bad);
        send(pair.a, 8);
        std::fprintf(stderr, "sent\n");
        ibv_wc completion{};
        ibv_poll_cq(pair.b.cq.get(), 1, &completion);
      },
      "sent");
}

}  // namespace
}  // namespace hbmwire::test
