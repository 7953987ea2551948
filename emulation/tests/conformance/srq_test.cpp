// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "emulation/tests/conformance/link.hpp"

/// Shared receive queues: one pool of receives for many queue pairs.
namespace hbmwire::conformance {
namespace {

constexpr const char* kSrqSource =
    "man ibv_create_srq, ibv_modify_srq, ibv_post_srq_recv; IBTA vol. 1, chapter 10, Shared "
    "Receive "
    "Queues";

class SharedReceives : public EachTransport {
 protected:
  void SetUp() override {
    EachTransport::SetUp();
    source(kSrqSource);
    HBMWIRE_NEED(lacking());
    HBMWIRE_NEED(nic.lacks_srq());
    link = std::make_unique<Link>(nic, GetParam(), LinkOptions{.b = {.with_srq = true}});
  }

  void send(std::uint64_t id) {
    ASSERT_EQ(link->a.post(link->request(IBV_WR_SEND, id), 0, 8), 0);
    link->a.expect_sent(id);
  }

  ibv_srq_attr query() {
    ibv_srq_attr attributes{};
    EXPECT_EQ(ibv_query_srq(link->b.srq.get(), &attributes), 0);
    return attributes;
  }

  int set_limit(std::uint32_t limit) {
    ibv_srq_attr attributes{};
    attributes.srq_limit = limit;
    return ibv_modify_srq(link->b.srq.get(), &attributes, IBV_SRQ_LIMIT);
  }

  std::unique_ptr<Link> link;
};

TEST_P(SharedReceives, TakeMessages) {
  ASSERT_EQ(link->receive(2, 100, 64), 0);
  link->a.fill(0, 8, 3);
  send(1);
  const ibv_wc received = link->b.expect_received(2);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  link->b.expect_filled(100 + link->headroom(), 8, 3);
}

TEST_P(SharedReceives, AreTakenInTheirOrder) {
  for (std::uint64_t id = 1; id <= 6; ++id) ASSERT_EQ(link->receive(100 + id, id * 200, 64), 0);
  for (std::uint64_t id = 1; id <= 6; ++id) send(id);
  for (std::uint64_t id = 1; id <= 6; ++id) link->b.expect_received(100 + id);
}

TEST_P(SharedReceives, GiveTheirAttributes) {
  source("man ibv_query_srq");
  const ibv_srq_attr attributes = query();
  EXPECT_GE(attributes.max_wr, link->b.options.srq_depth);
  EXPECT_GE(attributes.max_sge, link->b.options.sge);
  EXPECT_EQ(attributes.srq_limit, 0U) << "no limit is armed";
}

TEST_P(SharedReceives, SayWhenTheyRunLow) {
  source("man ibv_modify_srq: an event once the number of WRs in the SRQ drops below srq_limit");
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_EQ(link->receive(id, 0, 64), 0);
  ASSERT_EQ(set_limit(3), 0);
  EXPECT_EQ(query().srq_limit, 3U);
  send(11);
  send(12);
  nic.expect_no_event(IBV_EVENT_SRQ_LIMIT_REACHED);  // 3 are left, which is not less than the limit
  send(13);
  nic.expect_event(IBV_EVENT_SRQ_LIMIT_REACHED, link->b.srq.get());
}

TEST_P(SharedReceives, SayOnceThatTheyRunLow) {
  source("man ibv_query_srq: if srq_limit is 0, the event is not (or no longer) armed");
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_EQ(link->receive(id, 0, 64), 0);
  ASSERT_EQ(set_limit(4), 0);
  send(11);
  nic.expect_event(IBV_EVENT_SRQ_LIMIT_REACHED, link->b.srq.get());
  EXPECT_EQ(query().srq_limit, 0U);
  send(12);
  nic.expect_no_event(IBV_EVENT_SRQ_LIMIT_REACHED);
  ASSERT_EQ(set_limit(2), 0) << "armed anew";
  send(13);
  nic.expect_event(IBV_EVENT_SRQ_LIMIT_REACHED, link->b.srq.get());
}

TEST_P(SharedReceives, LimitIsAtMostTheirLength) {
  source("man ibv_modify_srq; Linux rxe_srq_chk_attr, mlx5 srq.c: EINVAL");
  EXPECT_EQ(set_limit(query().max_wr + 1), EINVAL);
  EXPECT_EQ(query().srq_limit, 0U) << "a refused call changes nothing";
}

TEST_P(SharedReceives, AreResizedOnlyWhereTheDeviceSaysSo) {
  source("man ibv_modify_srq: IBV_SRQ_MAX_WR, check IBV_DEVICE_SRQ_RESIZE");
  ASSERT_EQ(link->receive(1, 0, 64), 0);
  ibv_srq_attr attributes{};
  attributes.max_wr = 2 * link->b.options.srq_depth;
  const int error = ibv_modify_srq(link->b.srq.get(), &attributes, IBV_SRQ_MAX_WR);
  if ((nic.limits().device_cap_flags & IBV_DEVICE_SRQ_RESIZE) != 0) {
    EXPECT_EQ(error, 0) << errno_name(error);
    EXPECT_GE(query().max_wr, 2 * link->b.options.srq_depth);
  } else {
    EXPECT_TRUE(error == EINVAL || error == EOPNOTSUPP || error == ENOSYS) << errno_name(error);
    EXPECT_GE(query().max_wr, link->b.options.srq_depth);
  }
  send(2);
  link->b.expect_received(1);
}

TEST_P(SharedReceives, AreNotFlushedByAQp) {
  source("IBTA vol. 1, chapter 10, Shared Receive Queues: a QP in error does not flush the SRQ");
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_EQ(link->receive(id, 0, 64), 0);
  ASSERT_EQ(link->b.to(IBV_QPS_ERR), 0);
  link->b.expect_silence(link->b.recv_cq);
  ASSERT_EQ(ibv_destroy_qp(link->b.qp.release()), 0);
  // Another QP finds all of them.
  Link next(nic, GetParam(), {.b = {.shared_srq = link->b.srq.get()}});
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(next.a.post(next.request(IBV_WR_SEND, 10 + id), 0, 8), 0);
    next.a.expect_sent(10 + id);
    next.b.expect_received(id);
  }
}

TEST_P(SharedReceives, ServeEveryQp) {
  Link second(nic, GetParam(), {.b = {.shared_srq = link->b.srq.get()}});
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_EQ(link->receive(id, 0, 64), 0);
  send(11);
  link->b.expect_received(1);
  ASSERT_EQ(second.a.post(second.request(IBV_WR_SEND, 12), 0, 8), 0);
  second.a.expect_sent(12);
  second.b.expect_received(2);
  send(13);
  link->b.expect_received(3);
}

TEST_P(SharedReceives, ABadRequestIsNamedAndThoseBeforeItArePosted) {
  source("man ibv_post_srq_recv: stops at the first failure and returns it through bad_wr");
  const std::uint32_t most = query().max_sge;
  ibv_sge good = link->b.element(0, 64);
  std::vector<ibv_sge> too_many(most + 1, good);
  ibv_recv_wr third{3, nullptr, &good, 1};
  ibv_recv_wr second{2, &third, too_many.data(), static_cast<int>(too_many.size())};
  ibv_recv_wr first{1, &second, &good, 1};
  ibv_recv_wr* bad = nullptr;
  EXPECT_NE(ibv_post_srq_recv(link->b.srq.get(), &first, &bad), 0);
  EXPECT_EQ(bad, &second);
  send(10);
  link->b.expect_received(1);
}

INSTANTIATE_TEST_SUITE_P(All, SharedReceives,
                         testing::Values(Transport::rc, Transport::uc, Transport::ud),
                         transport_name);

class SrqOfRc : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    HBMWIRE_NEED(nic.lacks_srq());
  }
};

TEST_F(SrqOfRc, LastReceiveOfAQpIsAnnounced) {
  source(
      "man ibv_get_async_event: IBV_EVENT_QP_LAST_WQE_REACHED, on a QP associated with an SRQ; "
      "IBTA vol. 1, chapter 11, affiliated asynchronous events");
  Link link(nic, Transport::rc, {.b = {.with_srq = true}});
  ASSERT_EQ(link.b.to(IBV_QPS_ERR), 0);
  nic.expect_event(IBV_EVENT_QP_LAST_WQE_REACHED, link.b.qp.get());
}

TEST_F(SrqOfRc, LastReceiveIsAnnouncedAfterAnErrorToo) {
  source("man ibv_get_async_event: IBV_EVENT_QP_LAST_WQE_REACHED; IBTA vol. 1, chapter 11");
  Link link(nic, Transport::rc, {.b = {.with_srq = true}});
  ibv_send_wr bad = link.request(IBV_WR_RDMA_WRITE, 1);
  bad.wr.rdma.rkey ^= kKeySpoiler;
  ASSERT_EQ(link.a.post(bad, 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_REM_ACCESS_ERR);
  bool access_error = false;
  bool last = false;
  wait_until([&] {
    while (auto event = nic.next_event(std::chrono::milliseconds(0))) {
      ibv_ack_async_event(&*event);
      access_error = access_error || event->event_type == IBV_EVENT_QP_ACCESS_ERR;
      last = last || event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
    }
    return access_error && last;
  });
  EXPECT_TRUE(access_error);
  EXPECT_TRUE(last);
}

TEST_F(SrqOfRc, AnEmptyQueueMeansReceiverNotReady) {
  source("IBTA vol. 1, chapter 9, RNR NAK; chapter 10, Shared Receive Queues");
  const Timing timing{.rnr_retry = 1};
  Link link(nic, Transport::rc, {.b = {.with_srq = true}, .timing = timing});
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(link.b.state(), IBV_QPS_RTS);
}

TEST_F(SrqOfRc, PostWakesAWaitingSender) {
  source("IBTA vol. 1, chapter 9, RNR NAK: the requester tries again");
  Link link(nic, Transport::rc, {.b = {.with_srq = true}});
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  link.a.expect_silence(link.a.send_cq);
  ASSERT_EQ(link.receive(2, 0, 8), 0);
  link.a.expect_sent(1);
  link.b.expect_received(2);
}

TEST_F(SrqOfRc, WriteWithImmediateTakesAReceive) {
  source("IBTA vol. 1, chapter 9, RDMA WRITE with immediate consumes a receive of the SRQ");
  Link link(nic, Transport::rc, {.b = {.with_srq = true}});
  ASSERT_EQ(link.receive(2, 0, 8), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE_WITH_IMM, 1), 0, 8), 0);
  link.a.expect_sent(1);
  EXPECT_EQ(link.b.expect_received(2).opcode, IBV_WC_RECV_RDMA_WITH_IMM);
}

TEST_F(SrqOfRc, ProtectionDomainOfItsMemoryIsTheSrqs) {
  source("IBTA vol. 1, chapter 10, Shared Receive Queues: the SRQ has a protection domain");
  Link link(nic, Transport::rc, {.b = {.with_srq = true}});
  const Pd other = nic.make_pd();
  const Mr foreign = nic.make_mr(other.get(), link.b.buffer.data(), 4096, kAllAccess);
  ibv_sge element = link.b.element(0, 64);
  element.lkey = foreign->lkey;
  ASSERT_EQ(link.b.receive(2, {element}), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_REM_OP_ERR);
  link.b.expect_received(2, IBV_WC_LOC_PROT_ERR);
}

TEST_F(SrqOfRc, HasItsContextAndDomain) {
  source("man ibv_create_srq: srq_context, pd");
  int cookie = 0;
  ibv_srq_init_attr initial{};
  initial.srq_context = &cookie;
  initial.attr = {4, 1, 0};
  const Srq srq(need(ibv_create_srq(nic.pd(), &initial), "ibv_create_srq"));
  EXPECT_EQ(srq->srq_context, &cookie);
  EXPECT_EQ(srq->pd, nic.pd());
  EXPECT_EQ(srq->context, nic.context());
}

}  // namespace
}  // namespace hbmwire::conformance
