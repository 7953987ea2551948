// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "emulation/tests/nic/xrc_side.hpp"

/// XRC in one process: objects that may be made, delivery, and refused requests.
namespace hbmwire::test {
namespace {

/// A sender and a receiver, connected.
struct Connected {
  explicit Connected(const Timing& timing = {}) : target(receiver.make_qp()) {
    sender.connect(receiver, target, timing);
  }

  XrcReceiver receiver;
  Qp target;
  XrcSender sender;
};

/// Expects that the receiver has refused a request: both QPs are in ERR, and the receiver got
/// `event` and IBV_EVENT_QP_LAST_WQE_REACHED.
void expect_refused(Connected& both, ibv_event_type event) {
  EXPECT_EQ(state_of(both.target), IBV_QPS_ERR);
  EXPECT_EQ(state_of(both.sender.qp), IBV_QPS_ERR);
  for (const ibv_event_type expected : {event, IBV_EVENT_QP_LAST_WQE_REACHED}) {
    const auto came = both.receiver.wait_event();
    ASSERT_TRUE(came.has_value());
    EXPECT_EQ(came->event_type, expected);
    EXPECT_EQ(came->element.qp, both.target.get());
  }
}

TEST(Xrcd, IsNamedByItsFile) {
  const DomainFile file;
  const Context context = open_device();
  EXPECT_EQ(open_domain(context, file.fd(), 0), nullptr);
  EXPECT_EQ(errno, EAGAIN) << "there is none, and O_CREAT was not given";
  Xrcd first = open_domain(context, file.fd(), O_CREAT | O_EXCL);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(open_domain(context, file.fd(), O_CREAT | O_EXCL), nullptr);
  EXPECT_EQ(errno, EINVAL) << "there is one, and O_EXCL was given";
  Xrcd second = open_domain(context, file.fd(), 0);
  EXPECT_NE(second, nullptr);
  first.reset();
  EXPECT_EQ(open_domain(context, file.fd(), O_EXCL | O_CREAT), nullptr) << "the second is open";
  second.reset();
  EXPECT_EQ(open_domain(context, file.fd(), 0), nullptr) << "the last one was closed";
}

TEST(Xrcd, BelongsToOneNic) {
  const DomainFile file;
  const Context context = open_device();
  const Context other = open_device("emu1");
  const Xrcd xrcd = open_domain(context, file.fd(), O_CREAT);
  EXPECT_EQ(open_domain(other, file.fd(), 0), nullptr);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(Xrcd, RefusesOtherDescriptors) {
  const Context context = open_device();
  EXPECT_EQ(open_domain(context, 9999, O_CREAT), nullptr);
  EXPECT_EQ(errno, EBADF);
  ibv_xrcd_init_attr init{};
  init.comp_mask = IBV_XRCD_INIT_ATTR_FD;
  init.fd = -1;
  EXPECT_EQ(ibv_open_xrcd(context.get(), &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.comp_mask = IBV_XRCD_INIT_ATTR_RESERVED;
  EXPECT_EQ(ibv_open_xrcd(context.get(), &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(Xrcd, IsKeptByItsObjects) {
  const unsigned domains = live_objects("xrcd");
  const int descriptors = open_descriptors();
  {
    const DomainFile file;
    XrcReceiver receiver(file.fd());
    Qp target = receiver.make_qp();
    EXPECT_EQ(live_objects("xrcd"), domains + 1);
    EXPECT_EQ(ibv_close_xrcd(receiver.xrcd.get()), EBUSY);
    EXPECT_EQ(ibv_destroy_cq(receiver.cq.get()), EBUSY);
    receiver.srq.reset();
    EXPECT_EQ(ibv_close_xrcd(receiver.xrcd.get()), EBUSY) << "the QP is left";
    target.reset();
    EXPECT_EQ(ibv_close_xrcd(receiver.xrcd.release()), 0);
  }
  EXPECT_EQ(live_objects("xrcd"), domains);
  EXPECT_EQ(live_objects("srq"), 0U);
  EXPECT_EQ(live_objects("qp"), 0U);
  EXPECT_LE(open_descriptors(), descriptors + 2) << "the fabric's state and this process' slot";
}

TEST(XrcObjects, NeedTheirParents) {
  XrcReceiver receiver;
  Endpoint other;
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(receiver.context.get(), &limits), 0);
  EXPECT_NE(limits.device_cap_flags & IBV_DEVICE_XRC, 0U);
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_XRC_RECV;
  init.comp_mask = IBV_QP_INIT_ATTR_PD;
  init.pd = receiver.pd.get();
  EXPECT_EQ(ibv_create_qp_ex(receiver.context.get(), &init), nullptr) << "a receiver has no PD";
  EXPECT_EQ(errno, EINVAL);
  init.qp_type = IBV_QPT_XRC_SEND;
  init.send_cq = receiver.cq.get();
  init.srq = receiver.srq.get();
  EXPECT_EQ(ibv_create_qp_ex(receiver.context.get(), &init), nullptr) << "a sender has no SRQ";
  EXPECT_EQ(errno, EINVAL);
  init.qp_type = IBV_QPT_RC;
  init.recv_cq = receiver.cq.get();
  EXPECT_EQ(ibv_create_qp_ex(receiver.context.get(), &init), nullptr)
      << "the SRQ belongs to an XRC domain";
  EXPECT_EQ(errno, EINVAL);
  ibv_srq_init_attr_ex srq{};
  srq.attr = {1, 1, 0};
  srq.srq_type = IBV_SRQT_XRC;
  srq.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD;
  srq.pd = receiver.pd.get();
  srq.xrcd = receiver.xrcd.get();
  EXPECT_EQ(ibv_create_srq_ex(receiver.context.get(), &srq), nullptr) << "no CQ";
  EXPECT_EQ(errno, EINVAL);
  srq.srq_type = IBV_SRQT_TM;
  EXPECT_EQ(ibv_create_srq_ex(receiver.context.get(), &srq), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(XrcObjects, HalvesDoNotTakeTheOthersRequests) {
  Connected both;
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(both.target.get(), &receive, &bad_receive), EINVAL);
  EXPECT_EQ(ibv_post_recv(both.sender.qp.get(), &receive, &bad_receive), EINVAL);
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad_send = nullptr;
  EXPECT_EQ(ibv_post_send(both.target.get(), &send, &bad_send), EINVAL);
}

/// Linux removes attributes from the mask of one half that belong to the other.
TEST(XrcObjects, AttributesOfTheOtherHalfAreIgnored) {
  XrcReceiver receiver;
  const Qp target = receiver.make_qp();
  ibv_qp_attr values{};
  values.qp_state = IBV_QPS_INIT;
  values.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(target.get(), &values,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS |
                              IBV_QP_RETRY_CNT),
            0);
  XrcSender sender;
  EXPECT_EQ(ibv_modify_qp(sender.qp.get(), &values,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS |
                              IBV_QP_MIN_RNR_TIMER),
            0);
}

TEST(Xrc, SendArrivesInTheSrqThatItNames) {
  Connected both;
  const Srq second = both.receiver.make_srq();
  ASSERT_NE(number_of(second), number_of(both.receiver.srq));
  ASSERT_EQ(both.receiver.post(both.receiver.srq, 1, 0, 64), 0);
  ASSERT_EQ(both.receiver.post(second, 2, 100, 64), 0);
  both.sender.base.buffer[0] = 'x';
  ASSERT_EQ(both.sender.send(7, number_of(second)), 0);
  both.sender.expect(7);
  const auto received = both.receiver.wait();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->status, IBV_WC_SUCCESS);
  EXPECT_EQ(received->opcode, IBV_WC_RECV);
  EXPECT_EQ(received->wr_id, 2U);
  EXPECT_EQ(received->byte_len, 8U);
  EXPECT_EQ(received->qp_num, both.target->qp_num);
  EXPECT_EQ(received->src_qp, both.sender.qp->qp_num);
  EXPECT_EQ(both.receiver.buffer[100], 'x');
}

TEST(Xrc, ExtendedInterfaceNamesTheSrq) {
  Connected both;
  ASSERT_EQ(both.receiver.post(3), 0);
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(both.sender.qp.get());
  ASSERT_NE(extended, nullptr);
  ibv_wr_start(extended);
  extended->wr_id = 9;
  extended->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(extended);
  ibv_wr_set_xrc_srqn(extended, number_of(both.receiver.srq));
  const ibv_sge element = both.sender.base.element(0, 8);
  ibv_wr_set_sge(extended, element.lkey, element.addr, element.length);
  ASSERT_EQ(ibv_wr_complete(extended), 0);
  both.sender.expect(9);
  EXPECT_EQ(both.receiver.wait()->wr_id, 3U);
}

TEST(Xrc, RdmaAndAtomicsReachTheMemoryOfTheSrqsPd) {
  Connected both;
  const std::uint32_t number = number_of(both.receiver.srq);
  const auto there = reinterpret_cast<std::uint64_t>(both.receiver.buffer.data());
  ibv_send_wr request{};
  request.wr_id = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma = {there + 8, both.receiver.mr->rkey};
  both.sender.base.buffer[0] = 5;
  ASSERT_EQ(both.sender.post(request, number), 0);
  both.sender.expect(1);
  EXPECT_EQ(both.receiver.buffer[8], 5);
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic = {there + 8, 3, 0, both.receiver.mr->rkey};
  both.sender.base.buffer[0] = 0;
  ASSERT_EQ(both.sender.post(request, number), 0);
  both.sender.expect(1);
  EXPECT_EQ(both.receiver.buffer[8], 8);
  EXPECT_EQ(both.sender.base.buffer[0], 5);
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma = {there + 8, both.receiver.mr->rkey};
  ASSERT_EQ(both.sender.post(request, number), 0);
  both.sender.expect(1);
  EXPECT_EQ(both.sender.base.buffer[0], 8);
  // A key of another PD than the SRQ's.
  const Pd pd(ibv_alloc_pd(both.receiver.context.get()));
  const Mr mr((ibv_reg_mr)(pd.get(), both.receiver.buffer.data(), 64, kAllAccess));
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma = {there, mr->rkey};
  ASSERT_EQ(both.sender.post(request, number), 0);
  both.sender.expect(1, IBV_WC_REM_ACCESS_ERR);
  expect_refused(both, IBV_EVENT_QP_ACCESS_ERR);
}

TEST(Xrc, SenderWaitsForAReceive) {
  Connected both({.rnr_retry = 7});
  ASSERT_EQ(both.sender.send(1, number_of(both.receiver.srq)), 0);
  EXPECT_FALSE(both.receiver.wait(std::chrono::milliseconds(30)).has_value());
  ASSERT_EQ(both.receiver.post(2), 0);
  EXPECT_EQ(both.receiver.wait()->wr_id, 2U);
  both.sender.expect(1);
}

TEST(Xrc, RefusesANumberThatNoSrqHas) {
  Connected both;
  ASSERT_EQ(both.sender.send(1, number_of(both.receiver.srq) ^ 0x800000U), 0);
  both.sender.expect(1, IBV_WC_REM_INV_REQ_ERR);
  expect_refused(both, IBV_EVENT_QP_REQ_ERR);
}

TEST(Xrc, RefusesAnSrqOfNoDomain) {
  Connected both;
  const Endpoint basic({.srq_depth = 4});
  ASSERT_EQ(both.sender.send(1, number_of(basic.srq)), 0);
  both.sender.expect(1, IBV_WC_REM_INV_REQ_ERR);
  expect_refused(both, IBV_EVENT_QP_REQ_ERR);
}

TEST(Xrc, RefusesAnSrqOfAnotherDomain) {
  Connected both;
  XrcReceiver stranger;
  ASSERT_EQ(stranger.post(5), 0);
  ASSERT_EQ(both.sender.send(1, number_of(stranger.srq)), 0);
  both.sender.expect(1, IBV_WC_REM_INV_REQ_ERR);
  expect_refused(both, IBV_EVENT_QP_REQ_ERR);
  EXPECT_FALSE(stranger.wait(std::chrono::milliseconds(20)).has_value());
}

TEST(Xrc, RefusesRequestsThatWaitForADestroyedSrq) {
  Connected both({.rnr_retry = 7});
  ASSERT_EQ(both.sender.send(1, number_of(both.receiver.srq)), 0);
  EXPECT_FALSE(both.sender.base.wait(std::chrono::milliseconds(20)).has_value());
  EXPECT_EQ(ibv_destroy_srq(both.receiver.srq.release()), 0);
  both.sender.expect(1, IBV_WC_REM_INV_REQ_ERR);
}

TEST(Xrc, OverrunOfTheSrqsCqEndsTheConnection) {
  XrcReceiver receiver;
  receiver.srq.reset();
  receiver.cq.reset(ibv_create_cq(receiver.context.get(), 1, nullptr, nullptr, 0));
  receiver.srq = receiver.make_srq();
  const Qp target = receiver.make_qp();
  XrcSender sender;
  sender.connect(receiver, target);
  for (unsigned id = 0; id < 2; ++id) {
    ASSERT_EQ(receiver.post(id), 0);
    ASSERT_EQ(sender.send(id, number_of(receiver.srq)), 0);
  }
  EXPECT_EQ(receiver.wait_event()->event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(receiver.wait_event()->event_type, IBV_EVENT_QP_FATAL);
  EXPECT_EQ(state_of(target), IBV_QPS_ERR);
}

}  // namespace
}  // namespace hbmwire::test
