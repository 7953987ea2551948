// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "emulation/tests/nic/endpoint.hpp"

/// Unreliable connections: messages arrive as with RC, or are dropped if they cannot be taken.
namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;

/// Options for an endpoint whose QP and MR lack the right `access`.
Endpoint::Options without(int access) {
  Endpoint::Options options = kUc;
  options.mr_access &= ~access;
  options.qp_access &= ~static_cast<unsigned>(access);
  return options;
}

TEST(UnreliableConnection, SendsAndWrites) {
  Pair pair(kUc, kUc);
  std::memset(pair.a.buffer.data(), 0x5a, 3000);
  ASSERT_EQ(pair.b.post_recv(1, 0, 4096), 0);
  ASSERT_EQ(pair.a.send(2, 0, 3000), 0);
  expect_completion(pair.a, 2);
  EXPECT_EQ(expect_completion(pair.b, 1).byte_len, 3000U);
  EXPECT_EQ(pair.b.buffer[2999], 0x5a);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 3, 0, 100, pair.b.address(), 8192), 0);
  expect_completion(pair.a, 3);
  EXPECT_EQ(pair.b.buffer[8192 + 99], 0x5a);
}

TEST(UnreliableConnection, HasNoReadAndNoAtomic) {
  Pair pair(kUc, kUc);
  for (const ibv_wr_opcode opcode :
       {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    EXPECT_EQ(pair.a.rdma(opcode, 1, 0, 8, pair.b.address()), EINVAL) << opcode;
  }
  EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
}

TEST(UnreliableConnection, DropsMessagesWithoutAReceive) {
  Pair pair(kUc, kUc);
  pair.a.buffer[0] = 1;
  ASSERT_EQ(pair.a.send(1, 0, 16), 0);
  expect_completion(pair.a, 1);
  pair.a.buffer[0] = 2;
  ASSERT_EQ(pair.b.post_recv(2, 0, 16), 0);
  ASSERT_EQ(pair.a.send(3, 0, 16), 0);
  expect_completion(pair.b, 2);
  EXPECT_EQ(pair.b.buffer[0], 2) << "the first message must be dropped, not kept";
}

TEST(UnreliableConnection, DropsAWriteThatIsNotAllowed) {
  Pair pair(kUc, without(IBV_ACCESS_REMOTE_WRITE));
  std::memset(pair.a.buffer.data(), 0x5a, 16);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 16, pair.b.address()), 0);
  expect_completion(pair.a, 1);
  EXPECT_EQ(pair.b.buffer[0], 0);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
  EXPECT_FALSE(pair.b.wait_event(20ms).has_value());
}

/// The receive of a dropped message takes the next one.
TEST(UnreliableConnection, DropsMessagesLongerThanTheirReceive) {
  Pair pair(kUc, kUc);
  ASSERT_EQ(pair.b.post_recv(1, 0, 8), 0);
  ASSERT_EQ(pair.a.send(2, 0, 16), 0);
  expect_completion(pair.a, 2);
  EXPECT_FALSE(pair.b.wait(20ms).has_value());
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
  EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
  ASSERT_EQ(pair.a.send(3, 0, 8), 0);
  expect_completion(pair.a, 3);
  expect_completion(pair.b, 1);
}

TEST(UnreliableConnection, StopsSendingAfterItsOwnErrorAndGoesOnReceiving) {
  Pair pair(kUc, kUc);
  ibv_send_wr request{};
  request.wr_id = 1;
  request.opcode = IBV_WR_SEND;
  ibv_sge wrong = pair.a.element(0, 16);
  wrong.lkey ^= 0x100U;
  ASSERT_EQ(pair.a.post(request, {wrong}), 0);
  expect_completion(pair.a, 1, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(pair.a.state(), IBV_QPS_SQE);
  ASSERT_EQ(pair.a.send(2, 0, 16), 0);
  expect_completion(pair.a, 2, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(pair.a.post_recv(3, 0, 16), 0);
  ASSERT_EQ(pair.b.send(4, 0, 16), 0);
  expect_completion(pair.a, 3);
  EXPECT_EQ(pair.a.to(IBV_QPS_RTS), 0);
  ASSERT_EQ(pair.b.post_recv(5, 0, 16), 0);
  ASSERT_EQ(pair.a.send(6, 0, 16), 0);
  expect_completion(pair.a, 6);
}

TEST(UnreliableConnection, RequestsToAPeerThatIsGoneSucceed) {
  Endpoint a(kUc);
  {
    Endpoint b(kUc);
    a.connect(b.address());
    b.connect(a.address());
  }
  ASSERT_EQ(a.send(1, 0, 16), 0);
  expect_completion(a, 1);
}

}  // namespace
}  // namespace hbmwire::test
