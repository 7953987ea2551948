// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "emulation/tests/nic/endpoint.hpp"

/// Unreliable datagrams, address handles and multicast groups.
namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kHeaderBytes = 40;
constexpr std::uint32_t kMulticastQpn = 0xffffff;
constexpr std::uint16_t kGroupLid = 0xc000;  // the first LID of a group; RoCE has none
const Endpoint::Options kUd{.type = IBV_QPT_UD};

/// A UD endpoint that can send and receive.
struct Datagrams : Endpoint {
  Datagrams() : Endpoint(kUd) { connect({}); }

  Ah handle_to(const ibv_gid& gid, std::uint8_t sgid_index = kGidIndex) {
    ibv_ah_attr attributes{};
    attributes.is_global = 1;
    attributes.port_num = 1;
    attributes.grh.dgid = gid;
    attributes.grh.sgid_index = sgid_index;
    attributes.grh.hop_limit = 64;
    attributes.grh.traffic_class = 0x20;
    return Ah(ibv_create_ah(pd.get(), &attributes));
  }

  int send_to(ibv_ah* ah, std::uint32_t qpn, std::uint64_t id, std::uint32_t length,
              std::uint32_t qkey = kQkey) {
    ibv_send_wr request{};
    request.wr_id = id;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.ud.ah = ah;
    request.wr.ud.remote_qpn = qpn;
    request.wr.ud.remote_qkey = qkey;
    return post(request, {element(0, length)});
  }
};

TEST(Datagram, CarriesAnIpv4HeaderAndSaysWhoSentIt) {
  Datagrams a;
  Datagrams b;
  std::memset(a.buffer.data(), 0x5a, 100);
  ASSERT_EQ(b.post_recv(1, 0, 200), 0);
  const Ah ah = a.handle_to(b.address().gid);
  ASSERT_NE(ah, nullptr);
  ASSERT_EQ(a.send_to(ah.get(), b.qp->qp_num, 2, 100), 0);
  expect_completion(a, 2);
  const ibv_wc received = expect_completion(b, 1);
  EXPECT_EQ(received.byte_len, 100 + kHeaderBytes);
  EXPECT_EQ(received.src_qp, a.qp->qp_num);
  EXPECT_NE(received.wc_flags & IBV_WC_GRH, 0U);
  EXPECT_EQ(b.buffer[kHeaderBytes], 0x5a);
  EXPECT_EQ(b.buffer[kHeaderBytes + 99], 0x5a);
  const unsigned char* ip = b.buffer.data() + 20;  // after 20 unused bytes
  EXPECT_EQ(ip[0], 0x45) << "version 4, and a header of five words";
  EXPECT_EQ(ip[1], 0x20) << "the traffic class of the address handle";
  EXPECT_EQ(std::memcmp(ip + 12, a.address().gid.raw + 12, 4), 0);
  EXPECT_EQ(std::memcmp(ip + 16, b.address().gid.raw + 12, 4), 0);
  unsigned sum = 0;
  for (int at = 0; at < 20; at += 2) sum += static_cast<unsigned>(ip[at] << 8 | ip[at + 1]);
  EXPECT_EQ((sum & 0xffffU) + (sum >> 16U), 0xffffU) << "RFC 791: the header's sum is all ones";
}

TEST(Datagram, CarriesAGlobalHeaderBetweenIpv6Addresses) {
  Datagrams a;
  Datagrams b;
  ibv_gid link_local{};
  ASSERT_EQ(ibv_query_gid(b.context.get(), 1, 1, &link_local), 0);
  ASSERT_EQ(b.post_recv(1, 0, 200), 0);
  const Ah ah = a.handle_to(link_local, 1);
  ASSERT_EQ(a.send_to(ah.get(), b.qp->qp_num, 2, 100), 0);
  expect_completion(b, 1);
  EXPECT_EQ(b.buffer[0] >> 4U, 6) << "the version of IP";
  EXPECT_EQ(std::memcmp(b.buffer.data() + 24, link_local.raw, 16), 0);
}

TEST(Datagram, CanBeAnswered) {
  Datagrams a;
  Datagrams b;
  ASSERT_EQ(b.post_recv(1, 0, 200), 0);
  const Ah ah = a.handle_to(b.address().gid);
  ASSERT_EQ(a.send_to(ah.get(), b.qp->qp_num, 2, 100), 0);
  ibv_wc received = expect_completion(b, 1);
  auto* header = reinterpret_cast<ibv_grh*>(b.buffer.data());
  const Ah back(ibv_create_ah_from_wc(b.pd.get(), &received, header, 1));
  ASSERT_NE(back, nullptr) << "man ibv_create_ah_from_wc: " << std::strerror(errno);
  ASSERT_EQ(a.post_recv(3, 0, 200), 0);
  ASSERT_EQ(b.send_to(back.get(), received.src_qp, 4, 50), 0);
  expect_completion(a, 2);
  expect_completion(a, 3);
}

TEST(Datagram, IsDroppedWithoutAReceiveOrWithAWrongQkeyQpNumberOrGid) {
  Datagrams a;
  Datagrams b;
  const Ah right = a.handle_to(b.address().gid);
  ibv_gid foreign = b.address().gid;
  foreign.raw[15] ^= 0x55U;
  const Ah elsewhere = a.handle_to(foreign);
  ASSERT_EQ(a.send_to(right.get(), b.qp->qp_num, 1, 10), 0);  // no receive is posted
  expect_completion(a, 1);
  ASSERT_EQ(b.post_recv(2, 0, 200), 0);
  ASSERT_EQ(a.send_to(right.get(), b.qp->qp_num, 3, 10, kQkey + 1), 0);
  expect_completion(a, 3);
  ASSERT_EQ(a.send_to(right.get(), b.qp->qp_num ^ 0x2000U, 4, 10), 0);
  expect_completion(a, 4);
  ASSERT_EQ(a.send_to(elsewhere.get(), b.qp->qp_num, 5, 10), 0);
  expect_completion(a, 5);
  EXPECT_FALSE(b.wait(20ms).has_value());
  ASSERT_EQ(a.send_to(right.get(), b.qp->qp_num, 6, 10), 0);
  EXPECT_EQ(expect_completion(b, 2).byte_len, 10 + kHeaderBytes);
}

TEST(Datagram, AControlledQkeyStandsForTheSendersOwn) {
  Datagrams a;
  Datagrams b;
  const Ah ah = a.handle_to(b.address().gid);
  ASSERT_EQ(b.post_recv(1, 0, 200), 0);
  // A Q_Key with the highest bit is a controlled one.
  ASSERT_EQ(a.send_to(ah.get(), b.qp->qp_num, 2, 10, 0x80000000), 0);
  expect_completion(b, 1);
}

TEST(Datagram, AMessageLongerThanTheMtuFails) {
  Datagrams a;
  Datagrams b;
  const Ah ah = a.handle_to(b.address().gid);
  ASSERT_EQ(b.post_recv(1, 0, 8192), 0);
  ASSERT_EQ(a.send_to(ah.get(), b.qp->qp_num, 2, 4096), 0);
  expect_completion(b, 1);
  expect_completion(a, 2);
  ASSERT_EQ(a.send_to(ah.get(), b.qp->qp_num, 3, 4097), 0);
  expect_completion(a, 3, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(a.state(), IBV_QPS_SQE);
}

/// A message that does not fit a receive with its header is dropped. The receive takes the next
/// one.
TEST(Datagram, NeedsRoomForItsHeader) {
  Datagrams a;
  Datagrams b;
  const Ah ah = a.handle_to(b.address().gid);
  ASSERT_EQ(b.post_recv(1, 0, kHeaderBytes + 9), 0);
  ASSERT_EQ(a.send_to(ah.get(), b.qp->qp_num, 2, 10), 0);
  expect_completion(a, 2);
  EXPECT_FALSE(b.wait(20ms).has_value());
  EXPECT_EQ(b.state(), IBV_QPS_RTS);
  ASSERT_EQ(a.send_to(ah.get(), b.qp->qp_num, 3, 9), 0);
  expect_completion(a, 3);
  expect_completion(b, 1);
}

TEST(AddressHandle, NeedsAGlobalPathFromAnExistingGid) {
  Datagrams a;
  ibv_ah_attr attributes{};
  attributes.port_num = 1;
  EXPECT_EQ(ibv_create_ah(a.pd.get(), &attributes), nullptr) << "RoCE has no LIDs";
  EXPECT_EQ(errno, EINVAL);
  attributes.is_global = 1;
  attributes.grh.dgid = a.address().gid;
  attributes.port_num = 9;
  EXPECT_EQ(ibv_create_ah(a.pd.get(), &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attributes.port_num = 1;
  attributes.grh.sgid_index = 31;
  EXPECT_EQ(ibv_create_ah(a.pd.get(), &attributes), nullptr)
      << "this entry of the table has no GID";
  EXPECT_EQ(errno, ENODATA);
  const Ah ah = a.handle_to(a.address().gid);
  EXPECT_EQ(ibv_dealloc_pd(a.pd.get()), EBUSY);
}

TEST(AddressHandle, MayGoAsSoonAsItsRequestIsPosted) {
  Datagrams a;
  Datagrams b;
  ASSERT_EQ(a.to(IBV_QPS_SQD), 0);
  ASSERT_EQ(b.post_recv(1, 0, 200), 0);
  {
    const Ah ah = a.handle_to(b.address().gid);
    ASSERT_EQ(a.send_to(ah.get(), b.qp->qp_num, 2, 10), 0);
  }
  ASSERT_EQ(a.to(IBV_QPS_RTS), 0);
  expect_completion(b, 1);
}

ibv_gid group_of(unsigned char last) {
  ibv_gid gid{};
  gid.raw[0] = 0xff;
  gid.raw[1] = 0x0e;
  gid.raw[15] = last;
  return gid;
}

TEST(Multicast, ReachesOnlyMembers) {
  Datagrams sender;
  Datagrams members[2];
  Datagrams other;
  const ibv_gid group = group_of(1);
  const ibv_gid another = group_of(2);
  for (Datagrams& member : members) {
    ASSERT_EQ(ibv_attach_mcast(member.qp.get(), &group, kGroupLid), 0);
    ASSERT_EQ(member.post_recv(1, 0, 200), 0);
  }
  ASSERT_EQ(ibv_attach_mcast(other.qp.get(), &another, kGroupLid), 0);
  ASSERT_EQ(other.post_recv(1, 0, 200), 0);
  const Ah ah = sender.handle_to(group);
  ASSERT_EQ(sender.send_to(ah.get(), kMulticastQpn, 2, 10), 0);
  expect_completion(sender, 2);
  for (Datagrams& member : members) {
    EXPECT_EQ(expect_completion(member, 1).src_qp, sender.qp->qp_num);
  }
  EXPECT_FALSE(other.wait(20ms).has_value());
  ASSERT_EQ(ibv_detach_mcast(members[0].qp.get(), &group, kGroupLid), 0);
  ASSERT_EQ(members[0].post_recv(3, 0, 200), 0);
  ASSERT_EQ(members[1].post_recv(3, 0, 200), 0);
  ASSERT_EQ(sender.send_to(ah.get(), kMulticastQpn, 4, 10), 0);
  expect_completion(members[1], 3);
  EXPECT_FALSE(members[0].wait(20ms).has_value());
  ASSERT_EQ(ibv_detach_mcast(members[1].qp.get(), &group, kGroupLid), 0);
  ASSERT_EQ(ibv_detach_mcast(other.qp.get(), &another, kGroupLid), 0);
}

TEST(Multicast, RefusesConnectedQpsAndUnicastGids) {
  Datagrams a;
  Endpoint connected;
  const ibv_gid group = group_of(3);
  const ibv_gid unicast = a.address().gid;
  EXPECT_EQ(ibv_attach_mcast(connected.qp.get(), &group, 0), EINVAL);
  EXPECT_EQ(ibv_attach_mcast(a.qp.get(), &unicast, 0), EINVAL);
  EXPECT_EQ(ibv_detach_mcast(a.qp.get(), &group, 0), EINVAL);
  ASSERT_EQ(ibv_attach_mcast(a.qp.get(), &group, 0), 0);
  ASSERT_EQ(ibv_attach_mcast(a.qp.get(), &group, 0), 0) << "twice is once";
  EXPECT_EQ(ibv_destroy_qp(a.qp.get()), EBUSY) << "Linux: while it is attached";
  ASSERT_EQ(ibv_detach_mcast(a.qp.get(), &group, 0), 0);
}

TEST(Multicast, ReachesIpv4Groups) {
  Datagrams a;
  Datagrams b;
  ibv_gid group{};
  group.raw[10] = group.raw[11] = 0xff;
  group.raw[12] = 239;
  group.raw[15] = 7;
  ASSERT_EQ(ibv_attach_mcast(b.qp.get(), &group, 0), 0);
  ASSERT_EQ(b.post_recv(1, 0, 200), 0);
  const Ah ah = a.handle_to(group);
  ASSERT_EQ(a.send_to(ah.get(), kMulticastQpn, 2, 10), 0);
  expect_completion(b, 1);
  ASSERT_EQ(ibv_detach_mcast(b.qp.get(), &group, 0), 0);
}

}  // namespace
}  // namespace hbmwire::test
