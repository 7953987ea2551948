// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "emulation/tests/nic/child_process.hpp"
#include "emulation/tests/nic/xrc_side.hpp"

/// An XRC_RECV queue pair and its domain belong to the NIC: tests of several handles and processes,
/// some of which end before others.
namespace hbmwire::test {
namespace {

const Timing kPatientReceiver{.rnr_retry = 7};

TEST(XrcHandles, OpenNeedsTheNumberTheDomainAndTheType) {
  XrcReceiver receiver;
  XrcReceiver stranger;
  const Qp target = receiver.make_qp();
  EXPECT_EQ(receiver.open_qp(target->qp_num ^ 0x800000U), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(stranger.open_qp(target->qp_num), nullptr) << "another domain";
  EXPECT_EQ(errno, EINVAL);
  ibv_qp_open_attr open{};
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  open.qp_num = target->qp_num;
  open.xrcd = receiver.xrcd.get();
  open.qp_type = IBV_QPT_RC;
  EXPECT_EQ(ibv_open_qp(receiver.context.get(), &open), nullptr);
  EXPECT_EQ(errno, EINVAL);
  open.qp_type = IBV_QPT_XRC_RECV;
  open.comp_mask |= IBV_QP_OPEN_ATTR_RESERVED;
  EXPECT_EQ(ibv_open_qp(receiver.context.get(), &open), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD;
  EXPECT_EQ(ibv_open_qp(receiver.context.get(), &open), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(XrcHandles, AllModifyAndQueryTheSameQp) {
  XrcReceiver receiver;
  const Qp target = receiver.make_qp();
  const Qp opened = receiver.open_qp(target->qp_num);
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(opened->qp_num, target->qp_num);
  EXPECT_EQ(opened->state, IBV_QPS_UNKNOWN);
  XrcSender sender;
  sender.connect(receiver, opened);  // through the second handle
  ibv_qp_attr values{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(target.get(), &values, 0, &init), 0);  // through the first handle
  EXPECT_EQ(values.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(values.dest_qp_num, sender.qp->qp_num);
  EXPECT_EQ(values.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(values.max_dest_rd_atomic, 4);
}

TEST(XrcHandles, EachHandleGetsTheEvents) {
  XrcReceiver receiver;
  const Qp target = receiver.make_qp();
  const Qp opened = receiver.open_qp(target->qp_num);
  XrcSender sender;
  sender.connect(receiver, target);
  ASSERT_EQ(sender.send(1, 0), 0);  // no SRQ has the number 0
  int first = 0;
  int second = 0;
  while (const auto event = receiver.wait_event(std::chrono::milliseconds(50))) {
    first += event->element.qp == target.get() ? 1 : 0;
    second += event->element.qp == opened.get() ? 1 : 0;
  }
  EXPECT_EQ(first, 2);  // QP_REQ_ERR and QP_LAST_WQE_REACHED
  EXPECT_EQ(second, 2);
}

TEST(XrcHandles, DestroyingTheLastHandleEndsTheQp) {
  XrcReceiver receiver;
  Qp target = receiver.make_qp();
  Qp opened = receiver.open_qp(target->qp_num);
  XrcSender sender;
  sender.connect(receiver, target);
  EXPECT_EQ(ibv_destroy_qp(target.release()), 0);
  ASSERT_EQ(receiver.post(1), 0);
  ASSERT_EQ(sender.send(1, number_of(receiver.srq)), 0);
  sender.expect(1);
  EXPECT_EQ(receiver.wait()->wr_id, 1U);
  const std::uint32_t number = opened->qp_num;
  EXPECT_EQ(ibv_destroy_qp(opened.release()), 0);
  EXPECT_EQ(receiver.open_qp(number), nullptr);
  ASSERT_EQ(sender.send(2, number_of(receiver.srq)), 0);
  sender.expect(2, IBV_WC_RETRY_EXC_ERR);
}

/// Opens QP `number` (sent on the line) of the domain that the file names, and receives in an SRQ
/// of its own.
void receive_by_anothers_qp(const Line& line, int file) {
  XrcReceiver self(file);
  const Qp opened = self.open_qp(line.receive<std::uint32_t>());
  ASSERT_NE(opened, nullptr);
  ASSERT_EQ(self.post(1), 0);
  ASSERT_EQ(self.post(2), 0);
  line.send(number_of(self.srq));
  for (std::uint64_t id = 1; id <= 2; ++id) {
    const auto received = self.wait();
    ASSERT_TRUE(received.has_value());
    EXPECT_EQ(received->wr_id, id);
    EXPECT_EQ(received->qp_num, opened->qp_num);
    EXPECT_EQ(self.buffer[0], id);
    line.send(true);
  }
  line.receive<bool>();
}

TEST(XrcPeers, OneConnectionLeadsToTheSrqsOfSeveralProcesses) {
  const DomainFile file;
  Child child([&](const Line& line) { receive_by_anothers_qp(line, file.fd()); });
  XrcReceiver self(file.fd());
  Qp target = self.make_qp();
  child.line().send(target->qp_num);
  const auto childs_srq = child.line().receive<std::uint32_t>();
  XrcSender sender;
  sender.connect(self, target, kPatientReceiver);
  ASSERT_EQ(self.post(9), 0);
  ASSERT_EQ(sender.send(1, number_of(self.srq)), 0);
  sender.expect(1);
  EXPECT_EQ(self.wait()->wr_id, 9U);
  sender.base.buffer[0] = 1;
  ASSERT_EQ(sender.send(2, childs_srq), 0);
  sender.expect(2);
  child.line().receive<bool>();
  // The QP stays with the process that still has it open.
  EXPECT_EQ(ibv_destroy_qp(target.release()), 0);
  sender.base.buffer[0] = 2;
  ASSERT_EQ(sender.send(3, childs_srq), 0);
  sender.expect(3);
  child.line().receive<bool>();
  child.line().send(true);
  EXPECT_EQ(child.join(), 0);
  ASSERT_EQ(sender.send(4, number_of(self.srq)), 0);
  sender.expect(4, IBV_WC_RETRY_EXC_ERR);
}

/// Makes a QP and an SRQ, connects the QP to the sender whose address comes on the line, and waits
/// until it is killed. Sends an Address with the number of the QP as `qpn` and of the SRQ as
/// `rkey`.
void own_a_qp(const Line& line, int file) {
  XrcReceiver self(file);
  const Qp target = self.make_qp();
  connect_target(target, line.receive<Address>(), kPatientReceiver);
  ASSERT_EQ(self.post(1), 0);
  Address mine;
  mine.qpn = target->qp_num;
  ibv_query_gid(self.context.get(), 1, kGidIndex, &mine.gid);
  mine.rkey = number_of(self.srq);
  line.send(mine);
  line.receive<bool>();
}

TEST(XrcPeers, QpOutlivesTheProcessThatMadeIt) {
  const DomainFile file;
  Child child([&](const Line& line) { own_a_qp(line, file.fd()); });
  XrcReceiver self(file.fd());
  XrcSender sender;
  child.line().send(sender.address());
  const auto there = child.line().receive<Address>();
  sender.connect(there, kPatientReceiver);
  Qp opened = self.open_qp(there.qpn);
  ASSERT_NE(opened, nullptr);
  ASSERT_EQ(sender.send(1, there.rkey), 0);
  sender.expect(1);
  child.kill();
  child.join();
  usleep(20000);
  ASSERT_EQ(self.post(2), 0);
  ASSERT_EQ(sender.send(2, number_of(self.srq)), 0);
  sender.expect(2);
  EXPECT_EQ(self.wait()->wr_id, 2U);
  ASSERT_EQ(sender.send(3, there.rkey), 0);  // the SRQ has gone with its process
  sender.expect(3, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(state_of(opened), IBV_QPS_ERR);
}

TEST(XrcPeers, QpAndDomainGoWithTheLastProcess) {
  const DomainFile file;
  Child child([&](const Line& line) { own_a_qp(line, file.fd()); });
  XrcSender sender;
  child.line().send(sender.address());
  const auto there = child.line().receive<Address>();
  sender.connect(there, kPatientReceiver);
  EXPECT_EQ(open_domain(sender.base.context, file.fd(), O_CREAT | O_EXCL), nullptr);
  child.kill();
  child.join();
  EXPECT_NE(open_domain(sender.base.context, file.fd(), O_CREAT | O_EXCL), nullptr);
  ASSERT_EQ(sender.send(1, there.rkey), 0);
  sender.expect(1, IBV_WC_RETRY_EXC_ERR);
}

TEST(XrcPeers, RequestThatWaitsEndsWhenTheSrqsProcessDies) {
  const DomainFile file;
  Child child([&](const Line& line) { own_a_qp(line, file.fd()); });
  XrcReceiver self(file.fd());
  XrcSender sender;
  child.line().send(sender.address());
  const auto there = child.line().receive<Address>();
  sender.connect(there, kPatientReceiver);
  const Qp opened = self.open_qp(there.qpn);
  ASSERT_EQ(sender.send(1, there.rkey), 0);
  sender.expect(1);
  ASSERT_EQ(sender.send(2, there.rkey), 0);  // no receive is left, so it waits
  child.kill();
  child.join();
  sender.expect(2, IBV_WC_REM_INV_REQ_ERR);
}

TEST(XrcPeers, AForkedChildCannotUseItsParentsXrcObjects) {
  XrcReceiver self;
  const Qp target = self.make_qp();
  Child child([&](const Line& line) {
    EXPECT_EQ(open_domain(self.context, -1, O_CREAT), nullptr);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(self.open_qp(target->qp_num), nullptr);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(self.make_qp(), nullptr);
    EXPECT_EQ(ibv_close_xrcd(self.xrcd.get()), EIO);
    EXPECT_EQ(ibv_destroy_qp(target.get()), EIO);
    std::uint32_t number = 0;
    EXPECT_EQ(ibv_get_srq_num(self.srq.get(), &number), EIO);
    line.send(true);
  });
  child.line().receive<bool>();
  EXPECT_EQ(child.join(), 0);
}

TEST(XrcPeers, FailingCallsLeaveNothingBehind) {
  const DomainFile file;
  long n = 0;
  for (bool complete = false; !complete; ++n) {
    ASSERT_LT(n, 50);
    {
      Endpoint base;
      fail_nth_call(n, ENOSPC);
      const Xrcd xrcd = open_domain(base.context, file.fd(), O_CREAT);
      ibv_qp_init_attr_ex init{};
      init.qp_type = IBV_QPT_XRC_RECV;
      init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
      init.xrcd = xrcd.get();
      const Qp qp(xrcd ? ibv_create_qp_ex(base.context.get(), &init) : nullptr);
      ibv_srq_init_attr_ex shared{};
      shared.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                         IBV_SRQ_INIT_ATTR_CQ;
      shared.attr = {1, 1, 0};
      shared.srq_type = IBV_SRQT_XRC;
      shared.pd = base.pd.get();
      shared.xrcd = xrcd.get();
      shared.cq = base.cq.get();
      const Srq srq(xrcd ? ibv_create_srq_ex(base.context.get(), &shared) : nullptr);
      const int error = errno;
      complete = fail_nth_call(-1, 0) <= n;
      EXPECT_EQ(complete, xrcd && qp && srq) << "call " << n;
      EXPECT_TRUE(complete || error == ENOSPC) << "call " << n;
    }
    for (const char* kind : {"xrcd", "srq", "qp", "cq", "pd"})
      EXPECT_EQ(live_objects(kind), 0U) << kind << " after call " << n;
  }
  EXPECT_EQ(n, 4);
}

}  // namespace
}  // namespace hbmwire::test
