// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "emulation/tests/rdma_cm/cm_handles.hpp"

/// Addresses, ports and devices: rdma_bind_addr(3), rdma_set_option(3), and the kernel's cma.c.
namespace hbmwire::test {
namespace {

/// The errno of rdma_bind_addr, or 0. If it succeeds, the id is bound.
int bind_error(const Id& id, Address address) {
  return rdma_bind_addr(id.get(), address.get()) == 0 ? 0 : errno;
}

TEST(Bind, NicAddressGivesDeviceAndPort) {
  EventChannel channel;
  const Id id = make_id(channel);
  ASSERT_EQ(bind_error(id, nic_address(1)), 0);
  ASSERT_NE(id->verbs, nullptr);
  EXPECT_STREQ(ibv_get_device_name(id->verbs->device), "emu1");
  EXPECT_EQ(id->port_num, 1);
  EXPECT_NE(rdma_get_src_port(id.get()), 0);
  EXPECT_NE(id->pd, nullptr);
}

// rdma_bind_addr(3): "If used to bind to port 0, the rdma_cm will select an available port."
TEST(Bind, WildcardHasNoDeviceButAPort) {
  EventChannel channel;
  const Id id = make_id(channel);
  ASSERT_EQ(bind_error(id, ipv4("0.0.0.0")), 0);
  EXPECT_EQ(id->verbs, nullptr);
  EXPECT_NE(rdma_get_src_port(id.get()), 0);
}

// cma.c, rdma_bind_addr: it refuses an address of no interface, an address of an interface without
// a NIC, and a second bind.
TEST(Bind, RefusesAddressesWithoutANicAndASecondBind) {
  EventChannel channel;
  const Id id = make_id(channel);
  EXPECT_EQ(bind_error(id, ipv4("198.51.100.7")), EADDRNOTAVAIL);
  EXPECT_EQ(bind_error(id, ipv4("127.1.2.3")), ENODEV);
  ASSERT_EQ(bind_error(id, nic_address()), 0);
  EXPECT_EQ(bind_error(id, nic_address()), EINVAL);
}

TEST(Bind, LinkLocalAddressNeedsAScope) {
  EventChannel channel;
  const Id id = make_id(channel);
  // GID 1 of the port is its link-local address.
  Id resolved = make_id(channel);
  ASSERT_EQ(bind_error(resolved, nic_address()), 0);
  ibv_gid gid{};
  ASSERT_EQ(ibv_query_gid(resolved->verbs, 1, 1, &gid), 0);
  char text[INET6_ADDRSTRLEN];
  ASSERT_NE(inet_ntop(AF_INET6, gid.raw, text, sizeof text), nullptr);
  EXPECT_EQ(bind_error(id, ipv6(text)), EINVAL);
  EXPECT_EQ(bind_error(id, ipv6(text, 0, 1)), 0);  // any port, and the scope 1
  EXPECT_NE(id->verbs, nullptr);
}

// cma.c, cma_check_port.
TEST(Bind, RefusesAPortInUse) {
  EventChannel channel;
  const Id first = make_id(channel);
  ASSERT_EQ(bind_error(first, nic_address()), 0);
  const auto port = ntohs(rdma_get_src_port(first.get()));
  EXPECT_EQ(bind_error(make_id(channel), nic_address(0, port)), EADDRINUSE);
  EXPECT_EQ(bind_error(make_id(channel), ipv4("0.0.0.0", port)), EADDRNOTAVAIL);
  // Another address and another port space have their own ports.
  EXPECT_EQ(bind_error(make_id(channel), nic_address(1, port)), 0);
  EXPECT_EQ(bind_error(make_id(channel, RDMA_PS_UDP), nic_address(0, port)), 0);
}

TEST(Bind, PortIsFreeAgainAfterDestroy) {
  EventChannel channel;
  Id first = make_id(channel);
  ASSERT_EQ(bind_error(first, nic_address()), 0);
  const auto port = ntohs(rdma_get_src_port(first.get()));
  first.reset();
  EXPECT_EQ(bind_error(make_id(channel), nic_address(0, port)), 0);
}

// rdma_set_option(3), RDMA_OPTION_ID_REUSEADDR.
TEST(Bind, ReuseAddressSharesAPortButOneListens) {
  EventChannel channel;
  int on = 1;
  const Id first = make_id(channel);
  const Id second = make_id(channel);
  for (const Id* id : {&first, &second}) {
    ASSERT_EQ(rdma_set_option(id->get(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on),
              0);
  }
  ASSERT_EQ(bind_error(first, nic_address()), 0);
  const auto port = ntohs(rdma_get_src_port(first.get()));
  ASSERT_EQ(bind_error(second, nic_address(0, port)), 0);
  EXPECT_EQ(rdma_listen(first.get(), 1), -1);
  EXPECT_EQ(errno, EADDRINUSE);
}

// rdma_set_option(3), RDMA_OPTION_ID_AFONLY: an IPv6 wildcard beside an IPv4 one.
TEST(Bind, AfonlyLetsTheFamiliesShareAPort) {
  EventChannel channel;
  int on = 1;
  const Id four = make_id(channel);
  ASSERT_EQ(bind_error(four, ipv4("0.0.0.0")), 0);
  const auto port = ntohs(rdma_get_src_port(four.get()));
  EXPECT_EQ(bind_error(make_id(channel), ipv6("::", port)), EADDRNOTAVAIL)
      << "an IPv6 wildcard is one for IPv4 too";
  const Id six = make_id(channel);
  ASSERT_EQ(rdma_set_option(six.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on), 0);
  EXPECT_EQ(bind_error(six, ipv6("::", port)), 0);
}

// ucma.c, ucma_set_option_id.
TEST(Options, SizesAndStatesAreChecked) {
  EventChannel channel;
  const Id id = make_id(channel);
  std::uint8_t byte = 0x20;
  int number = 1;
  EXPECT_EQ(rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1), 0);
  EXPECT_EQ(rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &number, 4), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1), 0);
  EXPECT_EQ(rdma_set_option(id.get(), RDMA_OPTION_ID, 99, &number, 4), -1);
  EXPECT_EQ(errno, ENOSYS);
  EXPECT_EQ(rdma_set_option(id.get(), 99, 0, &number, 4), -1);
  EXPECT_EQ(errno, ENOSYS);
  const Id datagram = make_id(channel, RDMA_PS_UDP);
  EXPECT_EQ(rdma_set_option(datagram.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1),
            -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Options, TypeOfServiceAndTimeoutReachTheQueuePair) {
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  std::uint8_t tos = 0x60;
  std::uint8_t timeout = 11;
  ASSERT_EQ(rdma_set_option(active.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
  ASSERT_EQ(rdma_set_option(active.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1),
            0);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  ASSERT_EQ(rdma_accept(passive.get(), &parameters.value), 0);
  channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(rdma_init_qp_attr(active.get(), &attributes, &mask), 0);
  EXPECT_EQ(attributes.ah_attr.grh.traffic_class, tos);
  attributes.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(rdma_init_qp_attr(active.get(), &attributes, &mask), 0);
  EXPECT_EQ(attributes.timeout, timeout);
}

// A listener that was never bound gets a port on the wildcard address.
TEST(Listen, UnboundIdIsBound) {
  EventChannel channel;
  const Id id = make_id(channel);
  ASSERT_EQ(rdma_listen(id.get(), 1), 0);
  EXPECT_NE(rdma_get_src_port(id.get()), 0);
}

// A kernel takes a service id without a GID as a wildcard. librdmacm uses that to find out whether
// the kernel knows AF_IB. Other InfiniBand addresses do not exist on RoCE.
TEST(InfiniBandAddresses, OnlyAWildcardIsBound) {
  EventChannel channel;
  sockaddr_ib address{};
  address.sib_family = AF_IB;
  address.sib_sid = htobe64(RDMA_IB_IP_PS_TCP);
  address.sib_sid_mask = htobe64(RDMA_IB_IP_PS_MASK);
  const Id id = make_id(channel);
  ASSERT_EQ(rdma_bind_addr(id.get(), reinterpret_cast<sockaddr*>(&address)), 0);
  EXPECT_NE(rdma_get_src_port(id.get()), 0);
  address.sib_addr.sib_raw[15] = 9;
  const Id other = make_id(channel);
  EXPECT_EQ(rdma_bind_addr(other.get(), reinterpret_cast<sockaddr*>(&address)), -1);
  EXPECT_EQ(errno, ENODEV);
}

// rdma_getaddrinfo(3) and rdma_create_ep(3), as rdma_client and rdma_server use them.
TEST(Endpoints, CreateEpTakesTheResultOfGetaddrinfo) {
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_PASSIVE;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* passive_info = nullptr;
  ASSERT_EQ(rdma_getaddrinfo("127.0.0.1", "0", &hints, &passive_info), 0);
  EXPECT_EQ(passive_info->ai_family, AF_INET);
  ibv_qp_init_attr attributes{};
  attributes.cap = {.max_send_wr = 2,
                    .max_recv_wr = 2,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  attributes.sq_sig_all = 1;
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_ep(&listener, passive_info, nullptr, &attributes), 0);
  ASSERT_EQ(rdma_listen(listener, 1), 0);

  hints.ai_flags = 0;
  rdma_addrinfo* active_info = nullptr;
  const std::string port = std::to_string(ntohs(rdma_get_src_port(listener)));
  ASSERT_EQ(rdma_getaddrinfo("127.0.0.1", port.c_str(), &hints, &active_info), 0);
  rdma_cm_id* active = nullptr;
  ASSERT_EQ(rdma_create_ep(&active, active_info, nullptr, &attributes), 0) << std::strerror(errno);
  EXPECT_NE(active->qp, nullptr);
  rdma_destroy_ep(active);
  rdma_destroy_ep(listener);
  rdma_freeaddrinfo(active_info);
  rdma_freeaddrinfo(passive_info);
}

// rdma_create_id(3): port spaces.
TEST(Ids, PortSpacesHaveTheirQueuePairs) {
  EventChannel channel;
  EXPECT_EQ(make_id(channel, RDMA_PS_TCP)->qp_type, IBV_QPT_RC);
  EXPECT_EQ(make_id(channel, RDMA_PS_IB)->qp_type, IBV_QPT_RC);
  EXPECT_EQ(make_id(channel, RDMA_PS_UDP)->qp_type, IBV_QPT_UD);
  const Id ipoib = make_id(channel, RDMA_PS_IPOIB);
  EXPECT_EQ(bind_error(ipoib, ipv4("0.0.0.0")), 0);
  // cma.c, cma_acquire_dev: IPoIB needs an InfiniBand link.
  EXPECT_EQ(bind_error(make_id(channel, RDMA_PS_IPOIB), nic_address()), EINVAL);
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_id(channel.get(), &id, nullptr, static_cast<rdma_port_space>(0x77)), -1);
  EXPECT_EQ(errno, EINVAL);
}

// rdma_get_devices(3).
TEST(Ids, DevicesAreTheNics) {
  int count = 0;
  ibv_context** const devices = rdma_get_devices(&count);
  ASSERT_NE(devices, nullptr);
  EXPECT_EQ(count, 2);
  rdma_free_devices(devices);
}

}  // namespace
}  // namespace hbmwire::test
