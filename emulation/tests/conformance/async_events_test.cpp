// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "emulation/tests/conformance/link.hpp"

/// Asynchronous events of queue pairs. Those of SRQs and CQs are in srq_test.cpp and cq_test.cpp.
namespace hbmwire::conformance {
namespace {

class AsynchronousEvents : public Conformance {};

TEST_F(AsynchronousEvents, SayThatCommunicationIsEstablished) {
  source(
      "man ibv_get_async_event: IBV_EVENT_COMM_EST; IBTA vol. 1, chapter 11: the first message "
      "arrives while the QP is in RTR");
  Link link(nic, Transport::rc, {.connected = false});
  ASSERT_EQ(link.b.to_init(), 0);
  ASSERT_EQ(link.b.to_rtr(link.a.address()), 0);
  link.a.connect(link.to_b);
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  link.a.expect_sent(1);
  link.b.expect_received(2);
  nic.expect_event(IBV_EVENT_COMM_EST, link.b.qp.get());
}

TEST_F(AsynchronousEvents, SayNothingOfAnEstablishedConnection) {
  source("IBTA vol. 1, chapter 11, Communication Established: in RTR only");
  Link link(nic, Transport::rc);
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  link.b.expect_received(2);
  nic.expect_no_event(IBV_EVENT_COMM_EST);
}

class SendQueueDrain : public EachTransport {
 protected:
  /// Moves the requester to SQD. Returns a reason if this device does not support that, else "".
  std::string drain(Link& link, int mask) {
    const int error = link.a.to(IBV_QPS_SQD, mask);
    if (error == EINVAL || error == EOPNOTSUPP) return "the device takes no QP to SQD";
    EXPECT_EQ(error, 0) << errno_name(error);
    return "";
  }
};

TEST_P(SendQueueDrain, IsAnnouncedWhenAskedFor) {
  source(
      "man ibv_modify_qp: IBV_QP_EN_SQD_ASYNC_NOTIFY; man ibv_get_async_event: "
      "IBV_EVENT_SQ_DRAINED");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  HBMWIRE_NEED(drain(link, IBV_QP_EN_SQD_ASYNC_NOTIFY));
  nic.expect_event(IBV_EVENT_SQ_DRAINED, link.a.qp.get());
  EXPECT_EQ(link.a.query().sq_draining, 0);
}

TEST_P(SendQueueDrain, IsNotAnnouncedUnasked) {
  source("man ibv_modify_qp: IBV_QP_EN_SQD_ASYNC_NOTIFY");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  HBMWIRE_NEED(drain(link, 0));
  nic.expect_no_event(IBV_EVENT_SQ_DRAINED);
}

TEST_P(SendQueueDrain, HoldsRequestsUntilRts) {
  source("IBTA vol. 1, chapter 10, SQD: work requests may be posted, and are not processed");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  HBMWIRE_NEED(drain(link, 0));
  ASSERT_TRUE(wait_until([&] { return link.a.query().sq_draining == 0; }));
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  link.b.expect_silence(link.b.recv_cq);
  ASSERT_EQ(link.a.to(IBV_QPS_RTS), 0);
  link.a.expect_sent(1);
  link.b.expect_received(2);
}

INSTANTIATE_TEST_SUITE_P(All, SendQueueDrain, testing::ValuesIn(kTransports), transport_name);

/// A drained send queue beside the receive queue, for types that have one: an XRC_SEND QP does not.
class ReceivesDuringDrain : public SendQueueDrain {};

TEST_P(ReceivesDuringDrain, GoOn) {
  source("IBTA vol. 1, chapter 10, SQD: the receive queue works as in RTS");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  HBMWIRE_NEED(drain(link, 0));
  ASSERT_EQ(link.a.receive(9, 0, 64 + link.headroom()), 0);
  ASSERT_EQ(link.b.post(link.b.request(IBV_WR_SEND, 3, link.a.address()), 0, 8), 0);
  link.b.expect_sent(3);
  link.a.expect_received(9);
}

INSTANTIATE_TEST_SUITE_P(All, ReceivesDuringDrain,
                         testing::Values(Transport::rc, Transport::uc, Transport::ud),
                         transport_name);

TEST_F(AsynchronousEvents, TheEventOfADrainWaitsForRequestsInFlight) {
  source("IBTA vol. 1, chapter 10, SQD: the event comes when outstanding requests are complete");
  Link link(nic, Transport::rc);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);  // waits for a receive
  link.a.expect_silence(link.a.send_cq);
  const int error = link.a.to(IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY);
  if (error == EINVAL || error == EOPNOTSUPP) GTEST_SKIP() << "the device takes no QP to SQD";
  ASSERT_EQ(error, 0);
  EXPECT_EQ(link.a.query().sq_draining, 1);
  nic.expect_no_event(IBV_EVENT_SQ_DRAINED);
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  link.a.expect_sent(1);
  nic.expect_event(IBV_EVENT_SQ_DRAINED, link.a.qp.get());
  EXPECT_EQ(link.a.query().sq_draining, 0);
}

TEST_F(AsynchronousEvents, AreNotWaitedForWhenTheDescriptorDoesNotBlock) {
  source("man ibv_get_async_event: -1 on error; its example of the non-blocking mode");
  const int fd = nic.context()->async_fd;
  ASSERT_EQ(::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
  ibv_async_event event{};
  EXPECT_EQ(ibv_get_async_event(nic.context(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(AsynchronousEvents, MustBeAcknowledgedBeforeTheirQpGoes) {
  source(
      "man ibv_get_async_event: destroying an object waits for all its events to be acknowledged");
  Link link(nic, Transport::rc);
  ibv_send_wr bad = link.request(IBV_WR_RDMA_WRITE, 1);
  bad.wr.rdma.rkey ^= kKeySpoiler;
  ASSERT_EQ(link.a.post(bad, 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_REM_ACCESS_ERR);
  auto event = nic.next_event(kPatience);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->event_type, IBV_EVENT_QP_ACCESS_ERR);
  ASSERT_EQ(event->element.qp, link.b.qp.get());
  std::atomic<bool> destroyed{false};
  ibv_qp* dying = link.b.qp.release();
  std::thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_qp(dying), 0);
    destroyed = true;
  });
  constexpr std::chrono::milliseconds kAWhile{30};
  EXPECT_FALSE(wait_until([&] { return destroyed.load(); }, kAWhile));
  ibv_ack_async_event(&*event);
  EXPECT_TRUE(wait_until([&] { return destroyed.load(); }));
  destroyer.join();
}

TEST_F(AsynchronousEvents, ADestroyedQpWithdrawsItsEvents) {
  source(
      "man ibv_destroy_qp; Linux uverbs_main.c: undelivered events of a QP are released with it");
  Link link(nic, Transport::rc);
  ibv_send_wr bad = link.request(IBV_WR_RDMA_WRITE, 1);
  bad.wr.rdma.rkey ^= kKeySpoiler;
  ASSERT_EQ(link.a.post(bad, 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_REM_ACCESS_ERR);
  ASSERT_TRUE(nic.has_event());
  link.b.qp.reset();
  nic.expect_no_event(IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(AsynchronousEvents, GoToTheContextOfTheirObject) {
  source("man ibv_get_async_event: the next async event of the RDMA device context");
  const Nic other;
  Side a(nic, {});
  Side b(other, {});
  b.connect(a.address());
  a.connect(b.address());
  ibv_send_wr bad = a.request(IBV_WR_RDMA_WRITE, 1, b.address());
  bad.wr.rdma.rkey ^= kKeySpoiler;
  ASSERT_EQ(a.post(bad, 0, 8), 0);
  a.expect_sent(1, IBV_WC_REM_ACCESS_ERR);
  other.expect_event(IBV_EVENT_QP_ACCESS_ERR, b.qp.get());
  nic.expect_no_event(IBV_EVENT_QP_ACCESS_ERR);
}

}  // namespace
}  // namespace hbmwire::conformance
