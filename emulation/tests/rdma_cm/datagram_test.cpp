// SPDX-License-Identifier: MIT
#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

#include "emulation/tests/rdma_cm/cm_handles.hpp"

/// RDMA_PS_UDP: service id resolution and multicast. rdma_cm(7), rdma_accept(3),
/// rdma_join_multicast(3), rdma_join_multicast_ex(3), and the kernel's cma.c.
namespace hbmwire::test {
namespace {

constexpr std::uint32_t kQkey = 0x01234567;  // RDMA_UDP_QKEY

// Statuses of a SIDR reply: service id resolution, by which datagrams find a queue pair.
constexpr int kUnsupported = 1;
constexpr int kRejected = 2;

TEST(Datagram, AcceptTellsQueuePairAndKey) {
  Listener listener(RDMA_PS_UDP);
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address, RDMA_PS_UDP);
  create_qp(active.get());
  Parameters asked({1, 2, 3});
  ASSERT_EQ(rdma_connect(active.get(), &asked.value), 0);
  const CmEvent request = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  // A SIDR REQ has room for 216 bytes, of which the kernel's header takes 36. A SIDR REP has 136.
  ASSERT_EQ(request.data.size(), 180U);
  EXPECT_EQ(request.data[2], 3);
  const Id passive = own(request);
  create_qp(passive.get());
  Parameters answered({4, 5});
  answered.value.qp_num = passive->qp->qp_num;
  ASSERT_EQ(rdma_accept(passive.get(), &answered.value), 0);
  const CmEvent established = channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  ASSERT_EQ(established.data.size(), 136U);
  EXPECT_EQ(established.data[1], 5);
  EXPECT_EQ(established.datagram.qp_num, passive->qp->qp_num);
  EXPECT_EQ(established.datagram.qkey, kQkey);
  EXPECT_EQ(established.datagram.ah_attr.is_global, 1);
  EXPECT_EQ(
      std::memcmp(&established.datagram.ah_attr.grh.dgid, &active->route.addr.addr.ibaddr.dgid, 16),
      0);
  ibv_ah* const handle =
      ibv_create_ah(active->pd, const_cast<ibv_ah_attr*>(&established.datagram.ah_attr));
  ASSERT_NE(handle, nullptr);
  ibv_destroy_ah(handle);
  // The listener's side gets no further event.
  EXPECT_FALSE(listener.channel.is_ready(50));
}

TEST(Datagram, QueuePairIsReadyToSend) {
  EventChannel channel;
  const Id id = resolved_id(channel, nic_address(0, 7000), RDMA_PS_UDP);
  create_qp(id.get());
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(id->qp, &attributes, IBV_QP_STATE | IBV_QP_QKEY, &initial), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attributes.qkey, kQkey);
}

TEST(Datagram, ARejectionIsReportedAsUnreachable) {
  Listener listener(RDMA_PS_UDP);
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address, RDMA_PS_UDP);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  const std::uint8_t why[] = {9, 8};
  ASSERT_EQ(rdma_reject(passive.get(), why, sizeof why), 0);
  const CmEvent event = channel.expect(RDMA_CM_EVENT_UNREACHABLE, kRejected);
  ASSERT_EQ(event.data.size(), 136U);
  EXPECT_EQ(event.data[0], 9);
}

TEST(Datagram, APortWithoutAListenerIsUnreachable) {
  EventChannel channel;
  const Id active = resolved_id(channel, nic_address(0, 5), RDMA_PS_UDP);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  channel.expect(RDMA_CM_EVENT_UNREACHABLE, kUnsupported);
}

TEST(Datagram, ListenerThatNeverAnswersIsUnreachable) {
  Listener listener(RDMA_PS_UDP);
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address, RDMA_PS_UDP);
  Parameters parameters;
  set_response_timeout(300);
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  set_response_timeout(0);
  channel.expect(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

/// An id that is bound to the first NIC and has a queue pair.
Id member(const EventChannel& channel) {
  Id id = make_id(channel, RDMA_PS_UDP);
  EXPECT_EQ(rdma_bind_addr(id.get(), nic_address().get()), 0);
  create_qp(id.get());
  return id;
}

// cma.c, cma_iboe_set_mgid: RoCE v2 maps an IPv4 group to ::ffff:0:0/96.
TEST(Multicast, JoinTellsTheGroupAndAttaches) {
  EventChannel channel;
  const Id id = member(channel);
  int context = 0;
  Address group = ipv4("239.1.2.3");
  ASSERT_EQ(rdma_join_multicast(id.get(), group.get(), &context), 0);
  const CmEvent event = channel.expect(RDMA_CM_EVENT_MULTICAST_JOIN);
  EXPECT_EQ(event.id, id.get());
  EXPECT_EQ(event.datagram.private_data, &context);
  EXPECT_EQ(event.datagram.qp_num, 0xffffffU);  // the number for multicast
  EXPECT_EQ(event.datagram.qkey, kQkey);
  const ibv_gid& gid = event.datagram.ah_attr.grh.dgid;
  const std::uint8_t expected[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3};
  EXPECT_EQ(std::memcmp(gid.raw, expected, sizeof expected), 0);
  // librdmacm has attached the queue pair: it cannot be destroyed before it leaves.
  EXPECT_EQ(ibv_destroy_qp(id->qp), EBUSY);
  ASSERT_EQ(rdma_leave_multicast(id.get(), group.get()), 0);
}

TEST(Multicast, SendOnlyMemberIsNotAttached) {
  EventChannel channel;
  const Id id = member(channel);
  Address group = ipv4("239.1.2.4");
  rdma_cm_join_mc_attr_ex attributes{};
  attributes.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  attributes.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  attributes.addr = group.get();
  ASSERT_EQ(rdma_join_multicast_ex(id.get(), &attributes, nullptr), 0);
  channel.expect(RDMA_CM_EVENT_MULTICAST_JOIN);
  EXPECT_EQ(ibv_detach_mcast(id->qp, &id->route.addr.addr.ibaddr.dgid, 0), EINVAL);
  ASSERT_EQ(rdma_leave_multicast(id.get(), group.get()), 0);
}

// ucma.c, ucma_leave_multicast: leaving does not wait for an unread event.
TEST(Multicast, LeaveDropsAnUnreadJoin) {
  EventChannel channel;
  Id id = make_id(channel, RDMA_PS_UDP);
  ASSERT_EQ(rdma_bind_addr(id.get(), nic_address().get()), 0);
  Address group = ipv4("239.1.2.5");
  ASSERT_EQ(rdma_join_multicast(id.get(), group.get(), nullptr), 0);
  ASSERT_EQ(rdma_leave_multicast(id.get(), group.get()), 0);
  EXPECT_FALSE(channel.is_ready(0));
  EXPECT_EQ(rdma_leave_multicast(id.get(), group.get()), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
}

// ucma.c: a join fails without a device, for an id of a connected type, or without a group.
TEST(Multicast, RefusesInvalidJoins) {
  EventChannel channel;
  Address group = ipv4("239.1.2.6");
  const Id unbound = make_id(channel, RDMA_PS_UDP);
  EXPECT_EQ(rdma_join_multicast(unbound.get(), group.get(), nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  const Id connected = make_id(channel, RDMA_PS_TCP);
  ASSERT_EQ(rdma_bind_addr(connected.get(), nic_address().get()), 0);
  EXPECT_EQ(rdma_join_multicast(connected.get(), group.get(), nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  const Id bound = make_id(channel, RDMA_PS_UDP);
  ASSERT_EQ(rdma_bind_addr(bound.get(), nic_address().get()), 0);
  EXPECT_EQ(rdma_join_multicast(bound.get(), ipv4("0.0.0.0").get(), nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

// As in mckey, a group can be resolved as a destination.
TEST(Multicast, GroupIsResolved) {
  EventChannel channel;
  const Id id = make_id(channel, RDMA_PS_UDP);
  Address group = ipv4("239.1.2.7", 7000);
  ASSERT_EQ(rdma_resolve_addr(id.get(), nic_address().get(), group.get(), kTimeoutMs), 0);
  channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_NE(id->verbs, nullptr);
  ASSERT_EQ(rdma_join_multicast(id.get(), group.get(), nullptr), 0);
  channel.expect(RDMA_CM_EVENT_MULTICAST_JOIN);
}

}  // namespace
}  // namespace hbmwire::test
