// SPDX-License-Identifier: MIT
#include <cerrno>
#include <cstring>

#include "emulation/tests/rdma_cm/cm_handles.hpp"

/// Resolving addresses and routes: rdma_resolve_addr(3), rdma_resolve_route(3), and the kernel's
/// cma.c.
namespace hbmwire::test {
namespace {

/// The local address of an id.
sockaddr_in source_of(const Id& id) {
  sockaddr_in form{};
  std::memcpy(&form, rdma_get_local_addr(id.get()), sizeof form);
  return form;
}

TEST(Resolve, ADestinationOnThisNodeIsItsOwnSource) {
  EventChannel channel;
  const Id id = resolved_id(channel, nic_address(1, 7000));
  const auto expected = reinterpret_cast<const sockaddr_in&>(nic_address(1).storage);
  EXPECT_EQ(source_of(id).sin_addr.s_addr, expected.sin_addr.s_addr);
  EXPECT_EQ(ntohs(rdma_get_dst_port(id.get())), 7000);
  EXPECT_STREQ(ibv_get_device_name(id->verbs->device), "emu1");
}

TEST(Resolve, TheGivenSourceIsUsed) {
  EventChannel channel;
  const Id id = make_id(channel);
  ASSERT_EQ(
      rdma_resolve_addr(id.get(), nic_address(1).get(), nic_address(0, 7000).get(), kTimeoutMs), 0);
  channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_STREQ(ibv_get_device_name(id->verbs->device), "emu1");
}

// cma.c, cma_bind_loopback: the first device, and 127.0.0.1 as source.
TEST(Resolve, LoopbackIsTheFirstDevice) {
  EventChannel channel;
  const Id id = resolved_id(channel, ipv4("127.0.0.1", 7000));
  EXPECT_EQ(source_of(id).sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_STREQ(ibv_get_device_name(id->verbs->device), "emu0");
}

TEST(Resolve, LoopbackMeetsAWildcardListener) {
  Listener listener(RDMA_PS_TCP, 8, ipv4("0.0.0.0"));
  EventChannel channel;
  const Id active = resolved_id(channel, ipv4("127.0.0.1", listener.address.port()));
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  EXPECT_NE(passive->verbs, nullptr);
  EXPECT_EQ(source_of(passive).sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_EQ(rdma_get_dst_port(passive.get()), rdma_get_src_port(active.get()));
}

TEST(Resolve, Ipv6LoopbackMeetsAnIpv6Listener) {
  Listener listener(RDMA_PS_TCP, 8, ipv6("::"));
  const auto port = ntohs(rdma_get_src_port(listener.id.get()));
  EventChannel channel;
  const Id active = resolved_id(channel, ipv6("::1", port));
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  ASSERT_EQ(rdma_accept(passive.get(), &parameters.value), 0);
  channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
}

// cma.c, cma_match_private_data: without AFONLY an IPv6 wildcard accepts IPv4 too.
TEST(Resolve, Ipv6WildcardTakesIpv4) {
  Listener listener(RDMA_PS_TCP, 8, ipv6("::"));
  const auto port = ntohs(rdma_get_src_port(listener.id.get()));
  EventChannel channel;
  const Id active = resolved_id(channel, nic_address(0, port));
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  EXPECT_EQ(rdma_get_local_addr(passive.get())->sa_family, AF_INET);
}

// rdma_resolve_addr(3): no node answers for the address within the time.
TEST(Resolve, AnUnusedAddressTimesOut) {
  EventChannel channel;
  Address address = nic_address();
  auto& form = reinterpret_cast<sockaddr_in&>(address.storage);
  form.sin_addr.s_addr ^= htonl(0xff00);  // a node that does not exist
  const Id id = make_id(channel);
  ASSERT_EQ(rdma_resolve_addr(id.get(), nullptr, address.get(), 200), 0);
  channel.expect(RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
  // The id can be used again.
  ASSERT_EQ(rdma_resolve_addr(id.get(), nullptr, nic_address().get(), 200), 0);
  channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
}

TEST(Resolve, CallsInOtherStatesAreInvalid) {
  EventChannel channel;
  const Id id = resolved_id(channel, nic_address(0, 7000));
  EXPECT_EQ(rdma_resolve_addr(id.get(), nullptr, nic_address().get(), 200), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_resolve_route(id.get(), 200), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_listen(id.get(), 1), -1);
  EXPECT_EQ(errno, EINVAL);
}

// rdma_resolve_route(3): the id has the route.
TEST(Resolve, RouteHasOnePathBetweenTheGids) {
  EventChannel channel;
  const Id id = resolved_id(channel, nic_address(0, 7000));
  ASSERT_EQ(id->route.num_paths, 1);
  const ibv_sa_path_rec& path = id->route.path_rec[0];
  EXPECT_EQ(std::memcmp(&path.sgid, &id->route.addr.addr.ibaddr.sgid, 16), 0);
  EXPECT_EQ(std::memcmp(&path.dgid, &id->route.addr.addr.ibaddr.dgid, 16), 0);
  EXPECT_EQ(path.sgid.raw[12], 127);  // a NIC's IPv4 address begins with 127
  EXPECT_EQ(path.pkey, 0xffff);
  EXPECT_EQ(path.mtu, IBV_MTU_4096);
  EXPECT_EQ(path.hop_limit, 64);
}

}  // namespace
}  // namespace hbmwire::test
