// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <vector>

#include "emulation/tests/conformance/link.hpp"

/// Errors in a reliable connection: completions, states and events of both ends.
namespace hbmwire::conformance {
namespace {

constexpr const char* kErrorSource =
    "man ibv_poll_cq: enum ibv_wc_status; IBTA vol. 1, chapter 9, tables of requester and "
    "responder "
    "error behaviour (classes A to F); chapter 11, completion return status and affiliated "
    "asynchronous errors";

class ReliableError : public EachTransport {
 protected:
  void SetUp() override {
    EachTransport::SetUp();
    source(kErrorSource);
    HBMWIRE_NEED(lacking());
  }

  /// Expects the request to fail at the responder, which gets `event`, and both QPs to be in ERR.
  void expect_remote(Link& link, const ibv_send_wr& request, std::uint32_t length,
                     ibv_wc_status status, ibv_event_type event) {
    ASSERT_EQ(link.a.post(request, 0, length), 0);
    link.a.expect_sent(request.wr_id, status);
    EXPECT_EQ(link.a.state(), IBV_QPS_ERR);
    EXPECT_TRUE(wait_until([&] { return link.b.state() == IBV_QPS_ERR; }));
    nic.expect_event(event, link.b.qp.get());
  }

  void expect_access_error(Link& link, const ibv_send_wr& request, std::uint32_t length = 8) {
    expect_remote(link, request, length, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
  }
};

TEST_P(ReliableError, WrongKey) {
  Link link(nic, GetParam());
  ibv_send_wr request = link.request(IBV_WR_RDMA_WRITE, 1);
  request.wr.rdma.rkey ^= kKeySpoiler;
  expect_access_error(link, request);
}

TEST_P(ReliableError, KeyOfAnIndexThatNeverWas) {
  Link link(nic, GetParam());
  ibv_send_wr request = link.request(IBV_WR_RDMA_READ, 1);
  request.wr.rdma.rkey = 0xffffff00;
  expect_access_error(link, request);
}

TEST_P(ReliableError, RegionOfAnotherProtectionDomain) {
  Link link(nic, GetParam());
  const Pd other = nic.make_pd();
  const Mr mr = nic.make_mr(other.get(), link.b.buffer.data(), 4096, kAllAccess);
  ibv_send_wr request = link.request(IBV_WR_RDMA_WRITE, 1);
  request.wr.rdma.rkey = mr->rkey;
  expect_access_error(link, request);
}

TEST_P(ReliableError, AddressThatWrapsAround) {
  Link link(nic, GetParam());
  ibv_send_wr request = link.request(IBV_WR_RDMA_WRITE, 1);
  request.wr.rdma.remote_addr = ~0ULL - 7;
  expect_access_error(link, request, 64);
}

TEST_P(ReliableError, NothingIsWrittenWhereAPartIsOutside) {
  Link link(nic, GetParam());
  const std::size_t end = link.b.buffer.size();
  link.a.fill(0, 64, 9);
  link.b.fill(end - 32, 32, 1);
  expect_access_error(link, link.request(IBV_WR_RDMA_WRITE, 1, end - 32), 64);
  link.b.expect_filled(end - 32, 32, 1);
}

TEST_P(ReliableError, OperationThatTheQpDoesNotAllow) {
  for (const ibv_wr_opcode opcode :
       {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    Link link(nic, GetParam(), {.b = {.qp_access = 0}});
    ASSERT_EQ(link.a.post(link.request(opcode, 1), 0, 8), 0);
    const auto completion = wait_completion(link.a.send_cq.get());
    ASSERT_TRUE(completion.has_value());
    // A NAK for an invalid request (rxe, the specification's table) or for an access error (mlx5).
    EXPECT_TRUE(completion->status == IBV_WC_REM_INV_REQ_ERR ||
                completion->status == IBV_WC_REM_ACCESS_ERR)
        << ibv_wc_status_str(completion->status);
    nic.expect_event(completion->status == IBV_WC_REM_INV_REQ_ERR ? IBV_EVENT_QP_REQ_ERR
                                                                  : IBV_EVENT_QP_ACCESS_ERR,
                     link.b.qp.get());
    EXPECT_EQ(link.a.state(), IBV_QPS_ERR);
    EXPECT_EQ(link.b.state(), IBV_QPS_ERR);
  }
}

TEST_P(ReliableError, MisalignedAtomic) {
  HBMWIRE_NEED(nic.lacks_atomics());
  Link link(nic, GetParam());
  ibv_send_wr request = link.request(IBV_WR_ATOMIC_CMP_AND_SWP, 1, 4);
  expect_remote(link, request, 8, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

TEST_P(ReliableError, ReceiveThatIsTooSmall) {
  Link link(nic, GetParam());
  ASSERT_EQ(link.b.receive(2, 0, 99), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 100), 0);
  link.a.expect_sent(1, IBV_WC_REM_INV_REQ_ERR);
  link.b.expect_received(2, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(link.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(link.b.state(), IBV_QPS_ERR);
}

TEST_P(ReliableError, ReceiveWithAWrongKey) {
  Link link(nic, GetParam());
  ibv_sge wrong = link.b.element(0, 100);
  wrong.lkey ^= kKeySpoiler;
  ASSERT_EQ(link.b.receive(2, {wrong}), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 100), 0);
  link.a.expect_sent(1, IBV_WC_REM_OP_ERR);
  link.b.expect_received(2, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(link.b.state(), IBV_QPS_ERR);
}

TEST_P(ReliableError, ReceiveIntoMemoryThatMayNotBeWritten) {
  Link link(nic, GetParam(), {.b = {.mr_access = IBV_ACCESS_REMOTE_READ}});
  ASSERT_EQ(link.b.receive(2, 0, 100), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 100), 0);
  link.a.expect_sent(1, IBV_WC_REM_OP_ERR);
  link.b.expect_received(2, IBV_WC_LOC_PROT_ERR);
}

TEST_P(ReliableError, OwnElementWithAWrongKey) {
  Link link(nic, GetParam());
  ibv_sge wrong = link.a.element(0, 8);
  wrong.lkey ^= kKeySpoiler;
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, 1), {wrong}), 0);
  link.a.expect_sent(1, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(link.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(link.b.state(), IBV_QPS_RTS) << "nothing was sent";
}

TEST_P(ReliableError, OwnElementOfAnotherProtectionDomain) {
  Link link(nic, GetParam());
  const Pd other = nic.make_pd();
  const Mr mr = nic.make_mr(other.get(), link.a.buffer.data(), 4096, kAllAccess);
  ibv_sge foreign = link.a.element(0, 8);
  foreign.lkey = mr->lkey;
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, 1), {foreign}), 0);
  link.a.expect_sent(1, IBV_WC_LOC_PROT_ERR);
}

TEST_P(ReliableError, ReadIntoMemoryThatMayNotBeWritten) {
  Link link(nic, GetParam(), {.a = {.mr_access = 0}});
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_READ, 1), 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(link.a.state(), IBV_QPS_ERR);
}

/// The responder sees the operands. The requester's memory is accessed only when the answer comes.
TEST_P(ReliableError, AtomicIntoMemoryThatMayNotBeWrittenChangesTheWord) {
  source(
      "IBTA vol. 1, chapter 9: the responder executes an atomic before it answers; Linux "
      "rxe_comp.c, do_atomic: IB_WC_LOC_PROT_ERR when the response comes");
  HBMWIRE_NEED(nic.lacks_atomics());
  Link link(nic, GetParam(), {.a = {.mr_access = 0}});
  *link.b.word(0) = 40;
  ibv_send_wr request = link.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 1);
  request.wr.atomic.compare_add = 2;
  ASSERT_EQ(link.a.post(request, 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(*link.b.word(0), 42U);
  EXPECT_EQ(link.b.state(), IBV_QPS_RTS);
}

TEST_P(ReliableError, NoReceiveAfterAllRetries) {
  const Timing timing{.rnr_retry = 1, .min_rnr_timer = 1};
  Link link(nic, GetParam(), {.timing = timing});
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(link.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(link.b.state(), IBV_QPS_RTS) << "the responder did nothing wrong";
}

TEST_P(ReliableError, NoReceiveAndNoRetries) {
  const Timing timing{.rnr_retry = 0, .min_rnr_timer = 1};
  Link link(nic, GetParam(), {.timing = timing});
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE_WITH_IMM, 1), 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_P(ReliableError, ReceiveThatComesLateIsNoError) {
  Link link(nic, GetParam());
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  link.a.expect_silence(link.a.send_cq);
  ASSERT_EQ(link.receive(2, 0, 8), 0);
  link.a.expect_sent(1);
  link.b.expect_received(2);
}

TEST_P(ReliableError, RetriesAreSpacedByTheReceiversTimer) {
  source("IBTA vol. 1, chapter 9, RNR NAK: min_rnr_timer of the responder; table of its codes");
  // Code 24 is 40.96 ms. Three retries wait at least three times as long.
  const Timing timing{.rnr_retry = 3, .min_rnr_timer = 24};
  Link link(nic, GetParam(), {.timing = timing});
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_RNR_RETRY_EXC_ERR);
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited, std::chrono::milliseconds(3 * 40));
}

TEST_P(ReliableError, PeerThatIsNotThere) {
  Link link(nic, GetParam(), {.connected = false});
  link.a.connect(link.to_b);  // b stays in RESET
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, 1), 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(link.a.state(), IBV_QPS_ERR);
}

TEST_P(ReliableError, PeerThatIsInError) {
  Link link(nic, GetParam());
  ASSERT_EQ(link.b.to(IBV_QPS_ERR), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, 1), 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_RETRY_EXC_ERR);
}

TEST_P(ReliableError, PeerThatIsGone) {
  Link link(nic, GetParam());
  link.b.qp.reset();
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, 1), 0, 8), 0);
  link.a.expect_sent(1, IBV_WC_RETRY_EXC_ERR);
}

TEST_P(ReliableError, PeerThatComesInTime) {
  const Timing patient{.timeout = 17, .retry_count = 7};
  Link link(nic, GetParam(), {.connected = false});
  link.a.connect(link.to_b, patient);
  ASSERT_EQ(link.b.to_init(), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, 1), 0, 8), 0);
  link.a.expect_silence(link.a.send_cq);
  ASSERT_EQ(link.b.to_rtr(link.a.address(), patient), 0);
  link.a.expect_sent(1);
}

TEST_P(ReliableError, SequenceNumbersThatDisagree) {
  Link link(nic, GetParam(), {.connected = false});
  ASSERT_EQ(link.b.to_init(), 0);
  ibv_qp_attr values = link.b.attributes(link.a.address());
  values.qp_state = IBV_QPS_RTR;
  values.rq_psn ^= 0x40;
  ASSERT_EQ(
      link.b.modify(values, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
      0);
  link.a.connect(link.to_b);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, 1), 0, 8), 0);
  const auto completion = wait_completion(link.a.send_cq.get());
  ASSERT_TRUE(completion.has_value());
  EXPECT_NE(completion->status, IBV_WC_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(All, ReliableError, testing::Values(Transport::rc, Transport::xrc),
                         transport_name);

}  // namespace
}  // namespace hbmwire::conformance
