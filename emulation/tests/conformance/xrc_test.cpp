// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "emulation/tests/conformance/link.hpp"

/// Extended reliable connections: each request names the receive queue that it is for.
namespace hbmwire::conformance {
namespace {

constexpr const char* kXrcSource =
    "man ibv_create_srq_ex, ibv_open_xrcd, ibv_open_qp, ibv_get_srq_num; IBTA vol. 1, annex 14, "
    "Extended Reliable Connected transport service";

class Xrc : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    source(kXrcSource);
    HBMWIRE_NEED(nic.lacks(IBV_QPT_XRC_SEND));
    link = std::make_unique<Link>(nic, Transport::xrc);
  }

  /// Another SRQ in a domain, whose receives complete in the link's receive CQ.
  Srq make_srq(ibv_xrcd* xrcd) {
    ibv_srq_init_attr_ex initial{};
    initial.attr = {8, 2, 0};
    initial.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                        IBV_SRQ_INIT_ATTR_CQ;
    initial.srq_type = IBV_SRQT_XRC;
    initial.pd = nic.pd();
    initial.xrcd = xrcd;
    initial.cq = link->b.recv_cq.get();
    return Srq(need(ibv_create_srq_ex(nic.context(), &initial), "ibv_create_srq_ex"));
  }

  static std::uint32_t number_of(const Srq& srq) {
    std::uint32_t number = 0;
    EXPECT_EQ(ibv_get_srq_num(srq.get(), &number), 0);
    return number;
  }

  int post_receive(const Srq& srq, std::uint64_t id) {
    ibv_sge element = link->b.element(0, 64);
    ibv_recv_wr request{id, nullptr, &element, 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq.get(), &request, &bad);
  }

  /// Opens the target QP once more. The caller may pass wrong attributes.
  ibv_qp* open(std::uint32_t number, ibv_qp_type type = IBV_QPT_XRC_RECV) {
    ibv_qp_open_attr attributes{};
    attributes.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_CONTEXT |
                           IBV_QP_OPEN_ATTR_TYPE;
    attributes.qp_num = number;
    attributes.xrcd = link->b.xrcd.get();
    attributes.qp_context = this;
    attributes.qp_type = type;
    return ibv_open_qp(nic.context(), &attributes);
  }

  std::unique_ptr<Link> link;
};

TEST_F(Xrc, RequestsNameTheirReceiveQueue) {
  const Srq second = make_srq(link->b.xrcd.get());
  EXPECT_NE(number_of(second), link->to_b.srqn);
  ASSERT_EQ(post_receive(second, 20), 0);
  ASSERT_EQ(link->receive(10, 0, 64), 0);
  ibv_send_wr request = link->request(IBV_WR_SEND, 1);
  request.qp_type.xrc.remote_srqn = number_of(second);
  ASSERT_EQ(link->a.post(request, 0, 8), 0);
  link->a.expect_sent(1);
  link->b.expect_received(20);
  ASSERT_EQ(link->a.post(link->request(IBV_WR_SEND, 2), 0, 8), 0);
  link->a.expect_sent(2);
  link->b.expect_received(10);
}

TEST_F(Xrc, ANumberThatNoReceiveQueueHasFails) {
  ibv_send_wr request = link->request(IBV_WR_SEND, 1);
  request.qp_type.xrc.remote_srqn = 0xfffffe;
  ASSERT_EQ(link->a.post(request, 0, 8), 0);
  const auto completion = wait_completion(link->a.send_cq.get());
  ASSERT_TRUE(completion.has_value());
  EXPECT_NE(completion->status, IBV_WC_SUCCESS);
  EXPECT_EQ(link->a.state(), IBV_QPS_ERR);
}

TEST_F(Xrc, ReceiveQueueOfAnotherDomainIsNotReached) {
  const Xrcd other = nic.make_xrcd();
  const Srq foreign = make_srq(other.get());
  ASSERT_EQ(post_receive(foreign, 20), 0);
  ibv_send_wr request = link->request(IBV_WR_SEND, 1);
  request.qp_type.xrc.remote_srqn = number_of(foreign);
  ASSERT_EQ(link->a.post(request, 0, 8), 0);
  const auto completion = wait_completion(link->a.send_cq.get());
  ASSERT_TRUE(completion.has_value());
  EXPECT_NE(completion->status, IBV_WC_SUCCESS);
  link->b.expect_silence(link->b.recv_cq);
}

TEST_F(Xrc, ReceivesOutliveTheTargetQp) {
  ASSERT_EQ(link->receive(10, 0, 64), 0);
  ASSERT_EQ(link->b.to(IBV_QPS_ERR), 0);
  link->b.expect_silence(link->b.recv_cq);
}

TEST_F(Xrc, SeveralTargetsFillOneReceiveQueue) {
  Side sender(nic, {.type = IBV_QPT_XRC_SEND});
  ibv_qp_init_attr_ex initial{};
  initial.qp_type = IBV_QPT_XRC_RECV;
  initial.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  initial.xrcd = link->b.xrcd.get();
  // A second target takes the place of the link's own.
  Qp own = std::move(link->b.qp);
  link->b.qp.reset(need(ibv_create_qp_ex(nic.context(), &initial), "ibv_create_qp_ex"));
  link->b.connect(sender.address());
  sender.connect(link->b.address());
  ASSERT_EQ(link->receive(10, 0, 64), 0);
  ASSERT_EQ(link->receive(11, 0, 64), 0);
  ASSERT_EQ(sender.post(sender.request(IBV_WR_SEND, 1, link->b.address()), 0, 8), 0);
  sender.expect_sent(1);
  EXPECT_EQ(link->b.expect_received(10).qp_num, link->b.qp->qp_num);
  ASSERT_EQ(link->a.post(link->request(IBV_WR_SEND, 2), 0, 8), 0);
  link->a.expect_sent(2);
  const auto received = wait_completion(link->b.recv_cq.get());
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->qp_num, own->qp_num) << "the completion names the target that received";
}

TEST_F(Xrc, TargetIsOpenedAgainByItsNumber) {
  const Qp again(open(link->b.qp->qp_num));
  ASSERT_TRUE(again) << errno_name(errno);
  EXPECT_EQ(again->qp_num, link->b.qp->qp_num);
  EXPECT_EQ(again->qp_context, this);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(again.get(), &attributes, IBV_QP_STATE, &initial), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
}

TEST_F(Xrc, TargetLivesAsLongAsItIsOpen) {
  source(
      "man ibv_open_qp: ibv_destroy_qp closes the opened QP and destroys the underlying QP if it "
      "has no other references");
  Qp again(open(link->b.qp->qp_num));
  ASSERT_TRUE(again) << errno_name(errno);
  const std::uint32_t number = link->b.qp->qp_num;
  EXPECT_EQ(ibv_destroy_qp(link->b.qp.release()), 0);
  ASSERT_EQ(link->receive(10, 0, 64), 0);
  ASSERT_EQ(link->a.post(link->request(IBV_WR_SEND, 1), 0, 8), 0);
  link->a.expect_sent(1);
  link->b.qp = std::move(again);
  link->b.expect_received(10);
  EXPECT_EQ(ibv_destroy_qp(link->b.qp.release()), 0);
  EXPECT_EQ(open(number), nullptr) << "now it is gone";
}

TEST_F(Xrc, ANumberThatNoTargetHasIsNotOpened) {
  source("man ibv_open_qp: fails for a QP that does not exist within the xrcd; Linux: EINVAL");
  const Side rc(nic, {.bytes = 64});
  EXPECT_EQ(open(rc.qp->qp_num), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(open(0xfffffe), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Xrc, TargetIsNotOpenedAsAnotherType) {
  source("man ibv_open_qp: with the specified qp_num and qp_type; Linux: EINVAL");
  EXPECT_EQ(open(link->b.qp->qp_num, IBV_QPT_RC), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Xrc, AReceiveQueueRaisesItsLimitEvent) {
  source("man ibv_modify_srq: IBV_SRQ_LIMIT, for XRC SRQs as for others");
  ASSERT_EQ(link->receive(1, 0, 64), 0);
  ASSERT_EQ(link->receive(2, 0, 64), 0);
  ibv_srq_attr attributes{};
  attributes.srq_limit = 2;
  ASSERT_EQ(ibv_modify_srq(link->b.srq.get(), &attributes, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(link->a.post(link->request(IBV_WR_SEND, 11), 0, 8), 0);
  link->a.expect_sent(11);
  nic.expect_event(IBV_EVENT_SRQ_LIMIT_REACHED, link->b.srq.get());
}

TEST_F(Xrc, RcDoesNotUseAnXrcReceiveQueue) {
  source("Linux uverbs_cmd.c, create_qp: an SRQ of type XRC is EINVAL for another QP");
  ibv_qp_init_attr initial{};
  initial.send_cq = link->a.send_cq.get();
  initial.recv_cq = link->a.recv_cq.get();
  initial.srq = link->b.srq.get();
  initial.cap = {1, 0, 1, 0, 0};
  initial.qp_type = IBV_QPT_RC;
  const Qp qp(ibv_create_qp(nic.pd(), &initial));
  EXPECT_FALSE(qp);
  if (!qp) {
    EXPECT_EQ(errno, EINVAL) << errno_name(errno);
  }
}

}  // namespace
}  // namespace hbmwire::conformance
