// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>

#include "emulation/tests/nic/endpoint.hpp"

/// Shared receive queues in one process, compared with man ibv_create_srq and ibv_post_srq_recv.
namespace hbmwire::test {
namespace {

TEST(Srq, IsKeptByItsQpsAndKeepsItsPd) {
  const unsigned srqs = live_objects("srq");
  Endpoint a(kWithSrq);
  EXPECT_EQ(live_objects("srq"), srqs + 1);
  EXPECT_EQ(ibv_destroy_srq(a.srq.get()), EBUSY);
  a.qp.reset();
  a.mr.reset();
  EXPECT_EQ(ibv_dealloc_pd(a.pd.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_srq(a.srq.release()), 0);
  EXPECT_EQ(ibv_dealloc_pd(a.pd.release()), 0);
  EXPECT_EQ(live_objects("srq"), srqs);
}

TEST(Srq, ItsQpsHaveNoReceiveQueue) {
  Pair pair({}, kWithSrq);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(pair.b.qp.get(), &attributes, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(init.srq, pair.b.srq.get());
  EXPECT_EQ(init.cap.max_recv_wr, 0U);
  EXPECT_EQ(init.cap.max_recv_sge, 0U);
  EXPECT_EQ(pair.b.post_recv(1, 0, 8), EINVAL);
}

TEST(Srq, RefusesReceivesThatDoNotFit) {
  Endpoint a(kWithSrq);
  std::vector<ibv_sge> elements(5, a.element(0, 8));
  ibv_recv_wr requests[2]{};
  requests[0].next = &requests[1];
  requests[1].sg_list = elements.data();
  requests[1].num_sge = 5;  // one more than the SRQ takes
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(a.srq.get(), requests, &bad), EINVAL);
  EXPECT_EQ(bad, &requests[1]);
  for (unsigned id = 1; id < 8; ++id) EXPECT_EQ(a.post_srq_recv(id, 0, 8), 0);
  EXPECT_EQ(a.post_srq_recv(8, 0, 8), ENOMEM) << "the first of the two above was posted";
}

TEST(Srq, FeedsAllItsQpsInTheOrderOfPosting) {
  Pair first({}, kWithSrq);
  Endpoint other;
  const Qp first_qp = first.b.next_qp();
  other.connect(first.b.address());
  first.b.connect(other.address());
  for (unsigned id = 0; id < 4; ++id) ASSERT_EQ(first.b.post_srq_recv(id, 64 * id, 64), 0);
  const std::uint32_t from[] = {first.a.qp->qp_num, other.qp->qp_num};
  const std::uint32_t at[] = {first_qp->qp_num, first.b.qp->qp_num};
  for (unsigned id = 0; id < 4; ++id) {
    Endpoint& sender = id % 2 == 0 ? first.a : other;
    sender.buffer[0] = static_cast<unsigned char>(id + 1);
    ASSERT_EQ(sender.send(100 + id, 0, 32), 0);
    expect_completion(sender, 100 + id);
    const auto received = first.b.wait();
    ASSERT_TRUE(received.has_value());
    EXPECT_EQ(received->status, IBV_WC_SUCCESS);
    EXPECT_EQ(received->wr_id, id);
    EXPECT_EQ(received->qp_num, at[id % 2]);
    EXPECT_EQ(received->src_qp, from[id % 2]);
    EXPECT_EQ(first.b.buffer[64 * id], id + 1);
  }
}

TEST(Srq, WriteWithImmediateTakesAReceive) {
  Pair pair({}, kWithSrq);
  ASSERT_EQ(pair.b.post_srq_recv(7, 0, 0), 0);
  ibv_send_wr request{};
  request.wr_id = 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = 42;
  request.wr.rdma = {pair.b.address().buffer + 100, pair.b.mr->rkey};
  pair.a.buffer[0] = 'w';
  ASSERT_EQ(pair.a.post(request, {pair.a.element(0, 1)}), 0);
  expect_completion(pair.a, 1);
  const ibv_wc received = expect_completion(pair.b, 7);
  EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received.imm_data, 42U);
  EXPECT_EQ(pair.b.buffer[100], 'w');
}

TEST(Srq, MakesSendersWaitWhileItIsEmpty) {
  Pair pair({}, kWithSrq, {.rnr_retry = 7});
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  EXPECT_FALSE(pair.a.wait(std::chrono::milliseconds(50)).has_value());
  ASSERT_EQ(pair.b.post_srq_recv(2, 0, 8), 0);
  expect_completion(pair.a, 1);
  expect_completion(pair.b, 2);
}

TEST(Srq, MakesSendersFailWhenItStaysEmpty) {
  Pair pair({}, kWithSrq, {.rnr_retry = 1, .min_rnr_timer = 14});
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  expect_completion(pair.a, 1, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
}

TEST(Srq, AnSrqOfAnotherPdUsesThatPdsMemory) {
  Endpoint receiver;
  const Pd pd(ibv_alloc_pd(receiver.context.get()));
  std::vector<char> memory(64);
  const Mr mr((ibv_reg_mr)(pd.get(), memory.data(), memory.size(), kAllAccess));
  ibv_srq_init_attr shared{};
  shared.attr = {4, 1, 0};
  receiver.srq.reset(ibv_create_srq(pd.get(), &shared));
  receiver.qp = nullptr;
  receiver.next_qp();
  Endpoint sender;
  sender.connect(receiver.address());
  receiver.connect(sender.address());
  ibv_sge element{reinterpret_cast<std::uint64_t>(memory.data()), 64, mr->lkey};
  ibv_recv_wr request{};
  request.wr_id = 5;
  request.sg_list = &element;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_srq_recv(receiver.srq.get(), &request, &bad), 0);
  sender.buffer[0] = 's';
  ASSERT_EQ(sender.send(1, 0, 8), 0);
  expect_completion(sender, 1);
  expect_completion(receiver, 5);
  EXPECT_EQ(memory[0], 's');
  // RDMA still uses the QP's PD.
  ASSERT_EQ(sender.rdma(IBV_WR_RDMA_WRITE, 2, 0, 8, receiver.address(), 0), 0);
  expect_completion(sender, 2);
  receiver.qp.reset();
  receiver.srq.reset();
}

TEST(Srq, TooSmallReceiveFailsOnBothSides) {
  Pair pair({}, kWithSrq);
  ASSERT_EQ(pair.b.post_srq_recv(2, 0, 7), 0);
  ASSERT_EQ(pair.b.post_srq_recv(3, 0, 64), 0);
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  expect_completion(pair.a, 1, IBV_WC_REM_INV_REQ_ERR);
  expect_completion(pair.b, 2, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  EXPECT_FALSE(pair.b.wait(std::chrono::milliseconds(20)).has_value()) << "an SRQ is not flushed";
  EXPECT_EQ(pair.b.wait_event(), IBV_EVENT_QP_LAST_WQE_REACHED);
}

TEST(SrqLastWqe, AMoveToErrRaisesTheEvent) {
  Pair pair({}, kWithSrq);
  ASSERT_EQ(pair.b.post_srq_recv(2, 0, 8), 0);
  ASSERT_EQ(pair.b.to(IBV_QPS_ERR), 0);
  EXPECT_EQ(pair.b.wait_event(), IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_FALSE(pair.b.wait(std::chrono::milliseconds(20)).has_value());
  // Another QP finds the remaining receives.
  Endpoint other;
  pair.b.next_qp();
  other.connect(pair.b.address());
  pair.b.connect(other.address());
  ASSERT_EQ(other.send(1, 0, 8), 0);
  expect_completion(other, 1);
  expect_completion(pair.b, 2);
}

TEST(SrqLastWqe, ARefusedRequestRaisesTheEvent) {
  Pair pair({}, kWithSrq);
  Address wrong = pair.b.address();
  wrong.rkey ^= 1;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, wrong), 0);
  expect_completion(pair.a, 1, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(pair.b.wait_event(), IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(pair.b.wait_event(), IBV_EVENT_QP_LAST_WQE_REACHED);
}

}  // namespace
}  // namespace hbmwire::test
