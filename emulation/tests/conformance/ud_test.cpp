// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "emulation/tests/conformance/link.hpp"

/// Datagrams: headers, keys, address handles, and messages that are dropped without a report.
namespace hbmwire::conformance {
namespace {

class Datagrams : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    HBMWIRE_NEED(nic.lacks(IBV_QPT_UD));
  }

  /// Sends a message that must be dropped, and then one that arrives, to the same receive.
  void expect_dropped(Link& link, const ibv_send_wr& request) {
    ASSERT_EQ(link.receive(2, 0, 64), 0);
    ASSERT_EQ(link.a.post(request, 0, 8), 0);
    link.a.expect_sent(request.wr_id);
    link.b.expect_silence(link.b.recv_cq);
    link.a.fill(0, 8, 99);
    ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 77), 0, 8), 0);
    link.a.expect_sent(77);
    link.b.expect_received(2);
    link.b.expect_filled(kGrhBytes, 8, 99);
  }
};

TEST_F(Datagrams, CompletionNamesTheSender) {
  source("man ibv_poll_cq: src_qp, and IBV_WC_GRH, valid for UD QPs");
  Link link(nic, Transport::ud);
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 64), 0);
  link.a.expect_sent(1);
  const ibv_wc received = link.b.expect_received(2);
  EXPECT_EQ(received.src_qp, link.a.qp->qp_num);
  if (nic.path().is_global != 0) {
    EXPECT_NE(received.wc_flags & IBV_WC_GRH, 0U);
  }
}

TEST_F(Datagrams, HeaderSaysWhoSentToWhom) {
  source(
      "man ibv_post_recv: the GRH is in the first 40 bytes; IBTA vol. 1, annex 17, RoCEv2: an "
      "IPv4 header is in the last 20 of them");
  HBMWIRE_NEED(nic.is_ethernet() ? "" : "without a GRH the 40 bytes are undefined");
  Link link(nic, Transport::ud);
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 64), 0);
  link.b.expect_received(2);
  const unsigned char* header = link.b.buffer.data();
  if (header[0] >> 4U == 6) {  // source and destination GID begin at byte 8
    EXPECT_EQ(std::memcmp(header + 8, nic.gid().raw, 16), 0);
    EXPECT_EQ(std::memcmp(header + 24, nic.gid().raw, 16), 0);
  } else {
    EXPECT_EQ(header[20] >> 4U, 4) << "neither an IPv6 nor an IPv4 header";
    EXPECT_EQ(std::memcmp(header + 32, nic.gid().raw + 12, 4), 0) << "the source address";
    EXPECT_EQ(std::memcmp(header + 36, nic.gid().raw + 12, 4), 0) << "the destination address";
  }
}

TEST_F(Datagrams, WrongQkeyIsDropped) {
  source("IBTA vol. 1, chapter 9, Q_Key check: a mismatch is silently dropped; chapter 10, Q_Keys");
  Link link(nic, Transport::ud);
  ibv_send_wr request = link.request(IBV_WR_SEND, 1);
  request.wr.ud.remote_qkey = kQkey + 1;
  expect_dropped(link, request);
}

TEST_F(Datagrams, HighBitOfTheQkeyMeansTheSendersOwn) {
  source(
      "IBTA vol. 1, chapter 10, Q_Keys: with the most significant bit set, the Q_Key of the "
      "sending QP is used instead");
  Link link(nic, Transport::ud);
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  ibv_send_wr request = link.request(IBV_WR_SEND, 1);
  request.wr.ud.remote_qkey = 0x80000000;
  ASSERT_EQ(link.a.post(request, 0, 8), 0);
  link.a.expect_sent(1);
  link.b.expect_received(2);
}

TEST_F(Datagrams, AMessageToAQpInResetIsDropped) {
  source("IBTA vol. 1, chapter 9, unreliable datagram: nothing is acknowledged");
  Link link(nic, Transport::ud);
  const Side gone(nic, {.type = IBV_QPT_UD, .bytes = 64});
  ibv_send_wr request = link.request(IBV_WR_SEND, 1);
  request.wr.ud.remote_qpn = gone.qp->qp_num;  // in RESET
  expect_dropped(link, request);
}

TEST_F(Datagrams, MessagesWithoutAReceiveAreDropped) {
  source("IBTA vol. 1, chapter 9, unreliable datagram: without a receive the packet is dropped");
  Link link(nic, Transport::ud);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  link.a.expect_sent(1);
  link.b.expect_silence(link.b.recv_cq);
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  link.b.expect_silence(link.b.recv_cq);
  EXPECT_EQ(link.b.state(), IBV_QPS_RTS);
}

TEST_F(Datagrams, ArriveInRtr) {
  source("IBTA vol. 1, chapter 10, RTR: receives are processed");
  Link link(nic, Transport::ud, {.connected = false});
  ASSERT_EQ(link.b.to_init(), 0);
  ASSERT_EQ(link.b.to_rtr({}), 0);
  link.a.connect({});
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  link.a.expect_sent(1);
  link.b.expect_received(2);
}

TEST_F(Datagrams, AMessageLongerThanAPacketIsRefusedOrFails) {
  source("IBTA vol. 1, chapter 9, unreliable datagram: one packet; chapter 11: Local Length Error");
  Link link(nic, Transport::ud, {.a = {.bytes = 65536}, .b = {.bytes = 65536}});
  ASSERT_EQ(link.receive(2, 0, nic.mtu_bytes() + 1), 0);
  const int error = link.a.post(link.request(IBV_WR_SEND, 1), 0, nic.mtu_bytes() + 1);
  if (error == 0)
    link.a.expect_sent(1, IBV_WC_LOC_LEN_ERR);
  else
    EXPECT_TRUE(error == EINVAL || error == EMSGSIZE) << errno_name(error);
  link.b.expect_silence(link.b.recv_cq);
}

TEST_F(Datagrams, MessagesLongerThanTheirReceiveAreDropped) {
  source(
      "IBTA vol. 1, chapter 9, responder error class D: dropped, the receive takes the next one; "
      "Linux rxe_resp.c, RESPST_ERR_LENGTH; hfi1, qib: 'Silently drop packets which are too big'");
  Link link(nic, Transport::ud);
  link.b.fill(0, 400, 50);
  ASSERT_EQ(link.receive(2, 0, 63), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 64), 0);
  link.a.expect_sent(1);
  link.b.expect_silence(link.b.recv_cq);
  EXPECT_EQ(link.b.state(), IBV_QPS_RTS);
  link.b.expect_filled(0, 400, 50);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 3), 0, 63), 0);
  link.a.expect_sent(3);
  link.b.expect_received(2);
}

TEST_F(Datagrams, OneQpSendsToMany) {
  source("IBTA vol. 1, chapter 9, unreliable datagram: the destination is in each work request");
  Link link(nic, Transport::ud);
  Side third(nic, {.type = IBV_QPT_UD});
  third.connect({});
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  ASSERT_EQ(third.receive(3, 0, 64 + kGrhBytes), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 10), 0, 8), 0);
  ASSERT_EQ(link.a.post(link.a.request(IBV_WR_SEND, 11, third.address()), 0, 8), 0);
  link.b.expect_received(2);
  third.expect_received(3);
}

TEST_F(Datagrams, ManySendToOneQp) {
  source("man ibv_poll_cq: src_qp");
  Link link(nic, Transport::ud);
  Side third(nic, {.type = IBV_QPT_UD});
  third.connect({});
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  ASSERT_EQ(link.receive(3, 0, 64), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  EXPECT_EQ(link.b.expect_received(2).src_qp, link.a.qp->qp_num);
  ASSERT_EQ(third.post(third.request(IBV_WR_SEND, 1, link.to_b), 0, 8), 0);
  EXPECT_EQ(link.b.expect_received(3).src_qp, third.qp->qp_num);
}

TEST_F(Datagrams, OwnElementWithAWrongKeyStopsTheSendQueue) {
  source(
      "IBTA vol. 1, chapter 10, Send Queue Error state: entered by a send error of UC and UD, "
      "left by Modify QP to RTS; some devices go to Error instead (rxe)");
  Link link(nic, Transport::ud);
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

class AddressHandles : public Datagrams {
 protected:
  int create(const ibv_ah_attr& wanted) {
    ibv_ah_attr path = wanted;
    const Ah ah(ibv_create_ah(nic.pd(), &path));
    return ah ? 0 : errno;
  }
};

TEST_F(AddressHandles, NeedAPortThatIsThere) {
  source("Linux uverbs_cmd.c, create_ah: rdma_is_port_valid, EINVAL; man ibv_create_ah");
  ibv_ah_attr path = nic.path();
  path.port_num = 0;
  EXPECT_EQ(create(path), EINVAL);
  path.port_num = static_cast<std::uint8_t>(nic.limits().phys_port_cnt + 1);
  EXPECT_EQ(create(path), EINVAL);
}

TEST_F(AddressHandles, NeedAGrhOnEthernet) {
  source("man ibv_create_ah: GRH required; Linux verbs.c, rdma_check_ah_attr: EINVAL");
  HBMWIRE_NEED(nic.is_ethernet() ? "" : "the port is no Ethernet port");
  ibv_ah_attr path = nic.path();
  path.is_global = 0;
  EXPECT_EQ(create(path), EINVAL);
}

TEST_F(AddressHandles, NeedAnEntryOfTheGidTable) {
  source("Linux drivers/infiniband/core/cache.c, rdma_get_gid_attr: index beyond the table");
  HBMWIRE_NEED(nic.port().gid_tbl_len < 256 ? "" : "the GID table has every index there is");
  ibv_ah_attr path = nic.path();
  path.is_global = 1;
  path.grh.sgid_index = static_cast<std::uint8_t>(nic.port().gid_tbl_len);
  EXPECT_NE(create(path), 0);
}

TEST_F(AddressHandles, KeepTheirAttributes) {
  source("man ibv_create_ah: an AH is associated with a protection domain");
  const Pd pd = nic.make_pd();
  ibv_ah_attr path = nic.path();
  const Ah ah(need(ibv_create_ah(pd.get(), &path), "ibv_create_ah"));
  EXPECT_EQ(ah->pd, pd.get());
  EXPECT_EQ(ah->context, nic.context());
}

TEST_F(AddressHandles, AreMadeFromACompletion) {
  source("man ibv_create_ah_from_wc, ibv_init_ah_from_wc");
  Link link(nic, Transport::ud);
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 8), 0);
  link.a.expect_sent(1);
  ibv_wc received = link.b.expect_received(2);
  auto* grh = reinterpret_cast<ibv_grh*>(link.b.buffer.data());
  ibv_ah_attr path{};
  ASSERT_EQ(ibv_init_ah_from_wc(nic.context(), settings().port, &received, grh, &path), 0);
  EXPECT_EQ(path.port_num, settings().port);
  EXPECT_EQ(path.is_global, nic.path().is_global);
  if (path.is_global != 0) {
    EXPECT_EQ(std::memcmp(path.grh.dgid.raw, nic.gid().raw, 16), 0) << "back to the sender";
  }
  const Ah back(ibv_create_ah_from_wc(nic.pd(), &received, grh, settings().port));
  ASSERT_TRUE(back) << errno_name(errno);
  ASSERT_EQ(link.a.receive(3, 0, 64 + kGrhBytes), 0);
  ibv_send_wr answer = link.b.request(IBV_WR_SEND, 4, link.a.address());
  answer.wr.ud.ah = back.get();
  answer.wr.ud.remote_qpn = received.src_qp;
  ASSERT_EQ(link.b.post(answer, 0, 8), 0);
  link.b.expect_sent(4);
  link.a.expect_received(3);
}

}  // namespace
}  // namespace hbmwire::conformance
