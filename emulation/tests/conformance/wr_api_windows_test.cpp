// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "emulation/tests/conformance/link.hpp"

/// The work request interface, ibv_wr_*: windows, and the QPs that have this interface.
namespace hbmwire::conformance {
namespace {

constexpr const char* kWindowSource = "man ibv_wr_post: table of operations, builders and setters";

/// Windows of type 2 through this interface. The owner of the memory is the requester here.
class WindowBuilders : public Conformance {
 protected:
  static constexpr std::uint64_t kOperations = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
                                               IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_SEND;

  void SetUp() override {
    Conformance::SetUp();
    source(std::string(kWindowSource) + "; man ibv_alloc_mw");
    HBMWIRE_NEED(nic.lacks_windows(IBV_MW_TYPE_2));
    constexpr int kBindable = kAllAccess | IBV_ACCESS_MW_BIND;
    link =
        std::make_unique<Link>(nic, Transport::rc,
                               LinkOptions{.a = {.mr_access = kBindable, .send_ops = kOperations},
                                           .b = {.mr_access = kBindable, .send_ops = kOperations}});
    mw.reset(need(ibv_alloc_mw(nic.pd(), IBV_MW_TYPE_2), "ibv_alloc_mw"));
    bind();
  }

  void bind() {
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(link->b.qp.get());
    const std::uint32_t key = ibv_inc_rkey(mw->rkey);
    const ibv_mw_bind_info where{link->b.mr.get(), link->to_b.buffer, 100, kRemoteAccess};
    ibv_wr_start(qp);
    qp->wr_id = 50;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_bind_mw(qp, mw.get(), key, &where);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    EXPECT_EQ(link->b.expect_sent(50).opcode, IBV_WC_BIND_MW);
    mw->rkey = key;
  }

  void expect_write(bool allowed) {
    ibv_send_wr request = link->request(IBV_WR_RDMA_WRITE, 1);
    request.wr.rdma.rkey = mw->rkey;
    ASSERT_EQ(link->a.post(request, 0, 100), 0);
    link->a.expect_sent(1, allowed ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
  }

  std::unique_ptr<Link> link;
  Mw mw;
};

TEST_F(WindowBuilders, Bind) { expect_write(true); }

TEST_F(WindowBuilders, LocalInvalidate) {
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(link->b.qp.get());
  ibv_wr_start(qp);
  qp->wr_id = 60;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_local_inv(qp, mw->rkey);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(link->b.expect_sent(60).opcode, IBV_WC_LOCAL_INV);
  expect_write(false);
}

TEST_F(WindowBuilders, SendWithInvalidate) {
  ASSERT_EQ(link->receive(2, 0, 16), 0);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(link->a.qp.get());
  const ibv_sge element = link->a.element(0, 16);
  ibv_wr_start(qp);
  qp->wr_id = 70;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send_inv(qp, mw->rkey);
  ibv_wr_set_sge(qp, element.lkey, element.addr, element.length);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  link->a.expect_sent(70);
  const ibv_wc received = link->b.expect_received(2);
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_INV, 0U);
  EXPECT_EQ(received.invalidated_rkey, mw->rkey);
  expect_write(false);
}

class SendOperations : public EachTransport {};

TEST_P(SendOperations, OperationsOfAnotherTypeAreRefusedAtCreation) {
  source(
      "man ibv_wr_post: if the QP does not support all the requested work request types then QP "
      "creation will fail");
  HBMWIRE_NEED(lacking());
  const Cq cq = nic.make_cq(4);
  ibv_qp_init_attr_ex initial{};
  initial.qp_type = requester_type(GetParam());
  initial.send_cq = initial.recv_cq = cq.get();
  initial.cap = {1, 1, 1, 1, 0};
  initial.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  initial.pd = nic.pd();
  initial.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ;
  const Qp qp(ibv_create_qp_ex(nic.context(), &initial));
  EXPECT_FALSE(qp);
  if (!qp) {
    EXPECT_TRUE(errno == EOPNOTSUPP || errno == EINVAL) << errno_name(errno);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SendOperations, testing::Values(Transport::uc, Transport::ud),
                         transport_name);

class PlainQps : public Conformance {};

TEST_F(PlainQps, HaveNoBuilders) {
  source("man ibv_create_qp_ex: use ibv_qp_to_qp_ex when IBV_QP_INIT_ATTR_SEND_OPS_FLAGS is used");
  const Side plain(nic, {.bytes = 64});
  EXPECT_EQ(ibv_qp_to_qp_ex(plain.qp.get()), nullptr);
}

}  // namespace
}  // namespace hbmwire::conformance
