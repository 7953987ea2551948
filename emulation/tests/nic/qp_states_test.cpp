// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>

#include "emulation/tests/nic/endpoint.hpp"

/// The states of a queue pair, and the attributes that each change of state needs.
namespace hbmwire::test {
namespace {

TEST(QpStates, FollowTheirOrder) {
  Endpoint a;
  Endpoint b;
  EXPECT_EQ(a.state(), IBV_QPS_RESET);
  EXPECT_EQ(a.to_rts(), EINVAL);
  EXPECT_EQ(a.to_rtr(b.address()), EINVAL);
  EXPECT_EQ(a.to_init(), 0);
  EXPECT_EQ(a.to_rts(), EINVAL);
  EXPECT_EQ(a.to_rtr(b.address()), 0);
  EXPECT_EQ(a.to_init(), EINVAL);
  EXPECT_EQ(a.to_rts(), 0);
  EXPECT_EQ(a.state(), IBV_QPS_RTS);
  EXPECT_EQ(a.to(IBV_QPS_ERR), 0);
  EXPECT_EQ(a.to_rts(), EINVAL);
  EXPECT_EQ(a.to(IBV_QPS_RESET), 0);
  EXPECT_EQ(a.state(), IBV_QPS_RESET);
}

TEST(QpStates, AMoveToRtrNeedsEachRequiredAttribute) {
  Endpoint a;
  Endpoint b;
  ASSERT_EQ(a.to_init(), 0);
  ibv_qp_attr values{};
  values.qp_state = IBV_QPS_RTR;
  values.path_mtu = IBV_MTU_1024;
  values.dest_qp_num = b.address().qpn;
  values.ah_attr.is_global = 1;
  values.ah_attr.port_num = 1;
  values.ah_attr.grh.dgid = b.address().gid;
  values.ah_attr.grh.sgid_index = kGidIndex;
  const int all = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  for (const int missing : {IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN,
                            IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER}) {
    EXPECT_EQ(ibv_modify_qp(a.qp.get(), &values, all & ~static_cast<int>(missing)), EINVAL)
        << missing;
  }
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &values, all | IBV_QP_TIMEOUT), EINVAL)
      << "not an attribute of this step";
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &values, all), 0);
}

TEST(QpStates, RefuseValuesThatThePortLacks) {
  Endpoint a;
  ibv_qp_attr values{};
  values.qp_state = IBV_QPS_INIT;
  const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  values.port_num = 2;
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &values, init), EINVAL);
  values.port_num = 1;
  values.pkey_index = 1;
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &values, init), EINVAL);
  values.pkey_index = 0;
  ASSERT_EQ(ibv_modify_qp(a.qp.get(), &values, init), 0);
  values = {};
  values.qp_state = IBV_QPS_RTR;
  values.path_mtu = IBV_MTU_1024;
  values.ah_attr.is_global = 1;
  values.ah_attr.port_num = 1;
  values.ah_attr.grh.sgid_index = kGidIndex;
  const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  ibv_qp_attr wrong = values;
  wrong.ah_attr.grh.sgid_index = 32;  // the table's length
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &wrong, rtr), EINVAL);
  wrong = values;
  wrong.path_mtu = static_cast<ibv_mtu>(IBV_MTU_4096 + 1);
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &wrong, rtr), EINVAL);
  wrong = values;
  wrong.ah_attr.is_global = 0;
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &wrong, rtr), EINVAL);
  wrong = values;
  wrong.max_dest_rd_atomic = 17;  // one more than the device allows
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &wrong, rtr), EINVAL);
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &values, rtr), 0);
}

TEST(QpStates, PostingDependsOnTheState) {
  Endpoint a;
  Endpoint b;
  EXPECT_EQ(a.post_recv(1, 0, 8), EINVAL);
  EXPECT_EQ(a.send(1, 0, 8), EINVAL);
  ASSERT_EQ(a.to_init(), 0);
  EXPECT_EQ(a.post_recv(1, 0, 8), 0);
  EXPECT_EQ(a.send(1, 0, 8), EINVAL);
  ASSERT_EQ(a.to_rtr(b.address()), 0);
  EXPECT_EQ(a.send(1, 0, 8), EINVAL);
}

TEST(QpStates, QueryReturnsTheSetValues) {
  Pair pair({}, {}, {.timeout = 12, .retry_count = 3, .rnr_retry = 5, .min_rnr_timer = 9});
  ibv_qp_attr values{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(pair.a.qp.get(), &values, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
  EXPECT_EQ(values.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(values.dest_qp_num, pair.b.qp->qp_num);
  EXPECT_EQ(values.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(values.timeout, 12);
  EXPECT_EQ(values.retry_cnt, 3);
  EXPECT_EQ(values.rnr_retry, 5);
  EXPECT_EQ(values.min_rnr_timer, 9);
  EXPECT_EQ(values.qp_access_flags, static_cast<unsigned>(kAllAccess));
  EXPECT_EQ(values.ah_attr.grh.sgid_index, kGidIndex);
  EXPECT_EQ(values.cap.max_send_wr, 16U);
  EXPECT_EQ(values.cap.max_inline_data, 64U);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
  EXPECT_EQ(init.send_cq, pair.a.cq.get());
}

TEST(QpStates, ResetForgetsPostedRequests) {
  Pair pair;
  ASSERT_EQ(pair.a.post_recv(1, 0, 8), 0);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 0, 8, pair.b.address()), 0);
  ASSERT_EQ(pair.a.to(IBV_QPS_RESET), 0);
  EXPECT_FALSE(pair.a.wait(std::chrono::milliseconds(1)).has_value());
}

TEST(QpStates, AConnectionOfWhichOneEndWasResetDoesNotGoOn) {
  Pair pair;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  expect_completion(pair.a, 1);
  ASSERT_EQ(pair.b.to(IBV_QPS_RESET), 0);
  pair.b.connect(pair.a.address());
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 0, 8, pair.b.address()), 0);
  expect_completion(pair.a, 2, IBV_WC_RETRY_EXC_ERR);
}

TEST(QpStates, RequestsOfADrainedQueueWaitForRts) {
  Pair pair;
  ASSERT_EQ(pair.a.to(IBV_QPS_SQD), 0);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  EXPECT_FALSE(pair.a.wait(std::chrono::milliseconds(5)).has_value());
  ASSERT_EQ(pair.a.to(IBV_QPS_RTS), 0);
  expect_completion(pair.a, 1);
}

}  // namespace
}  // namespace hbmwire::test
