// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>

#include "emulation/tests/nic/endpoint.hpp"

/// Features that emulation/docs/nic.md lists as not modelled are refused with EOPNOTSUPP and never
/// ignored.
namespace hbmwire::test {
namespace {

template <typename T>
void expect_unsupported(T* made, const char* what) {
  EXPECT_EQ(made, nullptr) << what;
  EXPECT_EQ(errno, EOPNOTSUPP) << what;
}

/// The error is in the result and in errno, as with the kernel's ioctl.
template <typename Call>
void expect_lacking(Call call, const char* what) {
  errno = 0;
  EXPECT_EQ(call(), EOPNOTSUPP) << what;
  EXPECT_EQ(errno, EOPNOTSUPP) << what;
}

TEST(NotModelled, MemoryThatTheDeviceHasItself) {
  Endpoint a;
  ibv_alloc_dm_attr attributes{};
  attributes.length = 64;
  expect_unsupported(ibv_alloc_dm(a.context.get(), &attributes), "ibv_alloc_dm");
  expect_unsupported(ibv_alloc_null_mr(a.pd.get()), "ibv_alloc_null_mr");
}

TEST(NotModelled, PagingOnDemand) {
  Endpoint a;
  expect_unsupported((ibv_reg_mr)(a.pd.get(), a.buffer.data(), 4096, IBV_ACCESS_ON_DEMAND),
                     "ibv_reg_mr");
  ibv_sge range = a.element(0, 4096);
  expect_lacking(
      [&] { return ibv_advise_mr(a.pd.get(), IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 1); },
      "ibv_advise_mr");
}

TEST(NotModelled, ThreadDomains) {
  Endpoint a;
  ibv_td_init_attr thread{};
  expect_unsupported(ibv_alloc_td(a.context.get(), &thread), "ibv_alloc_td");
  ibv_parent_domain_init_attr parent{};
  parent.pd = a.pd.get();
  expect_unsupported(ibv_alloc_parent_domain(a.context.get(), &parent), "ibv_alloc_parent_domain");
}

TEST(NotModelled, RawPacketsAndFlows) {
  Endpoint a;
  ibv_qp_init_attr raw{};
  raw.qp_type = IBV_QPT_RAW_PACKET;
  raw.send_cq = raw.recv_cq = a.cq.get();
  expect_unsupported(ibv_create_qp(a.pd.get(), &raw), "ibv_create_qp");
  ibv_flow_attr flow{};
  flow.size = sizeof flow;
  flow.port = 1;
  expect_unsupported(ibv_create_flow(a.qp.get(), &flow), "ibv_create_flow");
  ibv_flow_action_esp_attr esp{};
  expect_unsupported(ibv_create_flow_action_esp(a.context.get(), &esp), "ibv_create_flow_action");
  ibv_wq_init_attr queue{};
  queue.pd = a.pd.get();
  queue.cq = a.cq.get();
  queue.max_wr = queue.max_sge = 1;
  expect_unsupported(ibv_create_wq(a.context.get(), &queue), "ibv_create_wq");
  ibv_rwq_ind_table_init_attr table{};
  expect_unsupported(ibv_create_rwq_ind_table(a.context.get(), &table), "ibv_create_rwq_ind_table");
  ibv_counters_init_attr counters{};
  expect_unsupported(ibv_create_counters(a.context.get(), &counters), "ibv_create_counters");
}

TEST(NotModelled, HardwareOffloads) {
  Endpoint a;
  ibv_srq_init_attr_ex matching{};
  matching.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
  matching.srq_type = IBV_SRQT_TM;
  matching.pd = a.pd.get();
  matching.cq = a.cq.get();
  matching.attr.max_wr = matching.attr.max_sge = 1;
  expect_unsupported(ibv_create_srq_ex(a.context.get(), &matching), "ibv_create_srq_ex");
  ibv_cq_init_attr_ex cq{};
  cq.cqe = 1;
  cq.wc_flags = IBV_WC_EX_WITH_FLOW_TAG;
  expect_unsupported(ibv_create_cq_ex(a.context.get(), &cq), "ibv_create_cq_ex");
  ibv_qp_init_attr_ex segmenting{};
  segmenting.qp_type = IBV_QPT_UD;
  segmenting.send_cq = segmenting.recv_cq = a.cq.get();
  segmenting.pd = a.pd.get();
  segmenting.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  segmenting.send_ops_flags = IBV_QP_EX_WITH_TSO;
  expect_unsupported(ibv_create_qp_ex(a.context.get(), &segmenting), "ibv_create_qp_ex");
}

TEST(NotModelled, ModerationAndRates) {
  Endpoint a;
  ibv_modify_cq_attr moderation{};
  moderation.attr_mask = IBV_CQ_ATTR_MODERATE;
  moderation.moderate = {8, 16};
  expect_lacking([&] { return ibv_modify_cq(a.cq.get(), &moderation); }, "ibv_modify_cq");
  ibv_qp_rate_limit_attr rate{};
  expect_lacking([&] { return ibv_modify_qp_rate_limit(a.qp.get(), &rate); },
                 "ibv_modify_qp_rate_limit");
}

TEST(NotModelled, EnhancedConnectionEstablishment) {
  Endpoint a;
  ibv_ece options{};
  expect_lacking([&] { return ibv_query_ece(a.qp.get(), &options); }, "ibv_query_ece");
  options.vendor_id = 1;
  expect_lacking([&] { return ibv_set_ece(a.qp.get(), &options); }, "ibv_set_ece");
}

TEST(NotModelled, ForeignProcessesObjects) {
  Endpoint a;
  expect_unsupported(ibv_import_pd(a.context.get(), a.pd->handle), "ibv_import_pd");
  expect_unsupported(ibv_import_mr(a.pd.get(), a.mr->handle), "ibv_import_mr");
  expect_unsupported(ibv_import_device(a.context->cmd_fd), "ibv_import_device");
}

TEST(NotModelled, PathMigration) {
  Endpoint a;
  Endpoint b;
  ASSERT_EQ(a.to_init(), 0);
  ASSERT_EQ(a.to_rtr(b.address()), 0);
  ASSERT_EQ(a.to_rts(), 0);
  ibv_qp_attr attributes{};
  attributes.path_mig_state = IBV_MIG_REARM;
  expect_lacking([&] { return ibv_modify_qp(a.qp.get(), &attributes, IBV_QP_PATH_MIG_STATE); },
                 "ibv_modify_qp");
}

}  // namespace
}  // namespace hbmwire::test
