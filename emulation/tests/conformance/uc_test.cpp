// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <vector>

#include "emulation/tests/conformance/link.hpp"

/// Unreliable connections: messages that are lost are not reported and do not affect the next one.
namespace hbmwire::conformance {
namespace {

constexpr const char* kUcSource =
    "IBTA vol. 1, chapter 9, unreliable connection: a message that can't be taken is dropped, the "
    "responder waits for the next one; Linux rxe_resp.c: drop_msg";

class Unreliable : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    source(kUcSource);
    HBMWIRE_NEED(nic.lacks(IBV_QPT_UC));
  }

  /// Expects the request to be lost, and a WRITE after it to arrive.
  void expect_lost(Link& link, const ibv_send_wr& request, std::uint32_t length) {
    ASSERT_EQ(link.a.post(request, 0, length), 0);
    link.a.expect_sent(request.wr_id);
    EXPECT_EQ(link.a.state(), IBV_QPS_RTS);
    EXPECT_EQ(link.b.state(), IBV_QPS_RTS);
    link.a.fill(1000, 50, 42);
    ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, 77, 9000), 1000, 50), 0);
    link.a.expect_sent(77);
    // The last of the 50 bytes.
    EXPECT_TRUE(wait_until([&] { return link.b.buffer[9049] == link.a.buffer[1049]; }));
    link.b.expect_filled(9000, 50, 42);
  }
};

TEST_F(Unreliable, WriteWithAWrongKeyIsLost) {
  Link link(nic, Transport::uc);
  link.b.fill(0, 100, 1);
  ibv_send_wr request = link.request(IBV_WR_RDMA_WRITE, 1);
  request.wr.rdma.rkey ^= kKeySpoiler;
  expect_lost(link, request, 100);
  link.b.expect_filled(0, 100, 1);
}

TEST_F(Unreliable, WriteBeyondTheRegionIsLost) {
  Link link(nic, Transport::uc);
  const std::size_t end = link.b.buffer.size();
  link.b.fill(end - 10, 10, 1);
  expect_lost(link, link.request(IBV_WR_RDMA_WRITE, 1, end - 10), 11);
  link.b.expect_filled(end - 10, 10, 1);
}

TEST_F(Unreliable, WriteThatTheQpDoesNotAllowIsLost) {
  Link link(nic, Transport::uc, {.b = {.qp_access = 0}});
  link.b.fill(0, 100, 1);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, 1), 0, 100), 0);
  link.a.expect_sent(1);
  EXPECT_EQ(link.b.state(), IBV_QPS_RTS);
  link.b.expect_filled(0, 100, 1);
}

TEST_F(Unreliable, SendWithoutAReceiveIsLost) {
  Link link(nic, Transport::uc);
  expect_lost(link, link.request(IBV_WR_SEND, 1), 100);
  ASSERT_EQ(link.receive(2, 0, 100), 0);
  link.b.expect_silence(link.b.recv_cq);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 3), 0, 100), 0);
  link.a.expect_sent(3);
  link.b.expect_received(2);
}

TEST_F(Unreliable, PeerThatIsGoneIsNoError) {
  Link link(nic, Transport::uc);
  link.b.qp.reset();
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, id), 0, 100), 0);
    link.a.expect_sent(id);
  }
  EXPECT_EQ(link.a.state(), IBV_QPS_RTS);
}

TEST_F(Unreliable, OwnElementWithAWrongKeyStopsTheSendQueue) {
  source(
      "IBTA vol. 1, chapter 10, Send Queue Error state: entered by a send error of UC and UD, "
      "left by Modify QP to RTS; some devices go to Error instead (rxe)");
  Link link(nic, Transport::uc);
  ibv_sge wrong = link.a.element(0, 8);
  wrong.lkey ^= kKeySpoiler;
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), {wrong}), 0);
  link.a.expect_sent(1, IBV_WC_LOC_PROT_ERR);
  const ibv_qp_state state = link.a.state();
  ASSERT_TRUE(state == IBV_QPS_SQE || state == IBV_QPS_ERR) << name_of(state);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 2), 0, 8), 0);
  link.a.expect_sent(2, IBV_WC_WR_FLUSH_ERR);
  if (state == IBV_QPS_ERR) return;
  ASSERT_EQ(link.a.to(IBV_QPS_RTS), 0);
  ASSERT_EQ(link.receive(3, 0, 64), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 4), 0, 8), 0);
  link.a.expect_sent(4);
  link.b.expect_received(3);
}

TEST_F(Unreliable, MessageLongerThanItsReceiveIsLost) {
  source(
      "IBTA vol. 1, chapter 9, responder error class D; Linux hfi1, qib uc.c: 'Check for invalid "
      "length PMTU or posted rwqe len', goto rewind");
  Link link(nic, Transport::uc);
  link.b.fill(0, 400, 50);
  ASSERT_EQ(link.receive(2, 0, 63), 0);
  expect_lost(link, link.request(IBV_WR_SEND, 1), 64);
  link.b.expect_silence(link.b.recv_cq);
  link.b.expect_filled(0, 400, 50);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 3), 0, 63), 0);
  link.a.expect_sent(3);
  link.b.expect_received(2);
}

}  // namespace
}  // namespace hbmwire::conformance
