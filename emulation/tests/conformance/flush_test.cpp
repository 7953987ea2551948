// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <vector>

#include "emulation/tests/conformance/link.hpp"

/// After an error all posted requests are flushed in order. A reset clears the queue.
namespace hbmwire::conformance {
namespace {

constexpr const char* kFlushSource =
    "IBTA vol. 1, chapter 10, Error state: outstanding and new work requests complete with the "
    "Flushed in Error status, in order; man ibv_poll_cq: IBV_WC_WR_FLUSH_ERR";

class Flush : public EachTransport {};

TEST_P(Flush, OutstandingReceives) {
  source(kFlushSource);
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_EQ(link.receive(id, 0, 8), 0);
  ASSERT_EQ(link.b.to(IBV_QPS_ERR), 0);
  for (std::uint64_t id = 1; id <= 5; ++id) link.b.expect_received(id, IBV_WC_WR_FLUSH_ERR);
  link.b.expect_silence(link.b.recv_cq);
}

TEST_P(Flush, RequestsPostedInError) {
  source(kFlushSource);
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  ASSERT_EQ(link.a.to(IBV_QPS_ERR), 0);
  ibv_send_wr unsignaled = link.request(IBV_WR_SEND, 1);
  unsignaled.send_flags = 0;
  ASSERT_EQ(link.a.post(unsignaled, 0, 8), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 2), 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_WR_FLUSH_ERR);
  link.a.expect_sent(2, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(link.a.receive(3, 0, 8), 0);
  link.a.expect_received(3, IBV_WC_WR_FLUSH_ERR);
}

TEST_P(Flush, NothingArrivesInAQpThatIsInError) {
  source("IBTA vol. 1, chapter 10, Error state: incoming packets are silently dropped");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  ASSERT_EQ(link.receive(2, 0, 8), 0);
  link.b.fill(0, 100, 4);
  ASSERT_EQ(link.b.to(IBV_QPS_ERR), 0);
  link.b.expect_received(2, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 200, 8), 0);
  wait_completion(link.a.send_cq.get());
  link.b.expect_silence(link.b.recv_cq);
  link.b.expect_filled(0, 100, 4);
}

INSTANTIATE_TEST_SUITE_P(All, Flush, testing::Values(Transport::rc, Transport::uc, Transport::ud),
                         transport_name);

class FlushReliable : public EachTransport {};

TEST_P(FlushReliable, EverythingAfterAnErrorInOrder) {
  source(kFlushSource);
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  // The first waits for a receive, the second will fail, the rest follow.
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  ibv_send_wr bad = link.request(IBV_WR_RDMA_WRITE, 2);
  bad.wr.rdma.rkey ^= kKeySpoiler;
  ASSERT_EQ(link.a.post(bad, 0, 8), 0);
  for (std::uint64_t id = 3; id <= 8; ++id) {
    ibv_send_wr request = link.request(id % 2 == 0 ? IBV_WR_SEND : IBV_WR_RDMA_READ, id);
    if (id % 3 == 0) request.send_flags = 0;  // unsignaled requests are flushed as well
    ASSERT_EQ(link.a.post(request, 0, 8), 0);
  }
  ASSERT_EQ(link.receive(100, 0, 8), 0);
  link.a.expect_sent(1);
  link.a.expect_sent(2, IBV_WC_REM_ACCESS_ERR);
  for (std::uint64_t id = 3; id <= 8; ++id) link.a.expect_sent(id, IBV_WC_WR_FLUSH_ERR);
  link.b.expect_received(100);
  link.a.expect_silence(link.a.send_cq);
}

TEST_P(FlushReliable, WaitingRequestsWhenTheQpMovesToError) {
  source(kFlushSource);
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  for (std::uint64_t id = 1; id <= 4; ++id) {
    ibv_send_wr request = link.request(IBV_WR_SEND, id);
    if (id == 2) request.send_flags = 0;
    ASSERT_EQ(link.a.post(request, 0, 8), 0);
  }
  ASSERT_EQ(link.a.to(IBV_QPS_ERR), 0);
  for (std::uint64_t id = 1; id <= 4; ++id) link.a.expect_sent(id, IBV_WC_WR_FLUSH_ERR);
}

TEST_P(FlushReliable, ResetForgetsPostedRequests) {
  source("IBTA vol. 1, chapter 10, Reset state: work requests are removed without completions");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 2), 0, 8), 0);
  ASSERT_EQ(link.a.to(IBV_QPS_RESET), 0);
  ASSERT_EQ(link.b.to(IBV_QPS_RESET), 0);
  link.a.expect_silence(link.a.send_cq);
  link.b.connect(link.a.address());
  link.a.connect(link.to_b);
  ASSERT_EQ(link.receive(3, 0, 8), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 4), 0, 8), 0);
  link.a.expect_sent(4);
  link.b.expect_received(3);
}

TEST_P(FlushReliable, AConnectionWorksAgainAfterErrorAndReset) {
  source("IBTA vol. 1, chapter 10, Queue Pair states: Error to Reset, and from there as new");
  HBMWIRE_NEED(lacking());
  Link link(nic, GetParam());
  ibv_send_wr bad = link.request(IBV_WR_RDMA_WRITE, 1);
  bad.wr.rdma.rkey ^= kKeySpoiler;
  ASSERT_EQ(link.a.post(bad, 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_REM_ACCESS_ERR);
  nic.expect_event(IBV_EVENT_QP_ACCESS_ERR, link.b.qp.get());
  for (Side* side : {&link.a, &link.b}) ASSERT_EQ(side->to(IBV_QPS_RESET), 0);
  link.b.connect(link.a.address());
  link.a.connect(link.to_b);
  link.a.fill(0, 100, 3);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, 2, 500), 0, 100), 0);
  link.a.expect_sent(2);
  link.b.expect_filled(500, 100, 3);
}

INSTANTIATE_TEST_SUITE_P(All, FlushReliable, testing::Values(Transport::rc, Transport::xrc),
                         transport_name);

class FlushRc : public Conformance {};

TEST_F(FlushRc, ResetForgetsReceives) {
  source("IBTA vol. 1, chapter 10, Reset state: work requests are removed without completions");
  Link link(nic, Transport::rc);
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_EQ(link.receive(id, 0, 8), 0);
  for (Side* side : {&link.a, &link.b}) ASSERT_EQ(side->to(IBV_QPS_RESET), 0);
  link.b.expect_silence(link.b.recv_cq);
  link.b.connect(link.a.address());
  link.a.connect(link.to_b);
  ASSERT_EQ(link.receive(9, 0, 8), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 4), 0, 8), 0);
  link.a.expect_sent(4);
  link.b.expect_received(9);
}

TEST_F(FlushRc, ResponderOfAFailedRequest) {
  source(kFlushSource);
  Link link(nic, Transport::rc);
  ASSERT_EQ(link.receive(2, 0, 8), 0);
  ASSERT_EQ(link.receive(3, 0, 8), 0);
  ibv_send_wr bad = link.request(IBV_WR_RDMA_WRITE, 1);
  bad.wr.rdma.rkey ^= kKeySpoiler;
  ASSERT_EQ(link.a.post(bad, 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_REM_ACCESS_ERR);
  link.b.expect_received(2, IBV_WC_WR_FLUSH_ERR);
  link.b.expect_received(3, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(FlushRc, AFullSendQueueIsFlushedWhole) {
  source(kFlushSource);
  Link link(nic, Transport::rc);
  const std::uint64_t depth = link.a.options.send_depth;
  for (std::uint64_t id = 0; id < depth; ++id)
    ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, id), 0, 8), 0);
  ASSERT_EQ(link.a.to(IBV_QPS_ERR), 0);
  for (std::uint64_t id = 0; id < depth; ++id) link.a.expect_sent(id, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 77), 0, 8), 0) << "the slots are free again";
  link.a.expect_sent(77, IBV_WC_WR_FLUSH_ERR);
}

}  // namespace
}  // namespace hbmwire::conformance
