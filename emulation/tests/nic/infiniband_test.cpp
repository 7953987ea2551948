// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "emulation/tests/nic/endpoint.hpp"

/// InfiniBand ports: emu0 and emu1 have them, emu2 has Ethernet.
namespace hbmwire::test {
namespace {

ibv_port_attr port_of(const Endpoint& endpoint) {
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(endpoint.context.get(), 1, &port), 0);
  return port;
}

ibv_gid first_gid(const Endpoint& endpoint) {
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(endpoint.context.get(), 1, 0, &gid), 0);
  return gid;
}

/// The path by the LID alone.
ibv_ah_attr by_lid(const Endpoint& to) {
  ibv_ah_attr path{};
  path.dlid = port_of(to).lid;
  path.port_num = 1;
  return path;
}

/// The path by the LID, with a global header.
ibv_ah_attr by_grh(const Endpoint& to) {
  ibv_ah_attr path = by_lid(to);
  path.is_global = 1;
  path.grh.dgid = first_gid(to);
  path.grh.hop_limit = 1;
  return path;
}

/// Moves `from` to RTS, connected to `to` by `path`. Returns ibv_modify_qp's result.
int connect(Endpoint& from, const Endpoint& to, const ibv_ah_attr& path) {
  EXPECT_EQ(from.to_init(), 0);
  ibv_qp_attr values{};
  values.qp_state = IBV_QPS_RTR;
  values.path_mtu = IBV_MTU_1024;
  values.dest_qp_num = to.qp->qp_num;
  values.rq_psn = to.psn;
  values.max_dest_rd_atomic = 4;
  values.min_rnr_timer = 1;
  values.ah_attr = path;
  const int error =
      ibv_modify_qp(from.qp.get(), &values,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  return error != 0 ? error : from.to_rts();
}

/// Options for an endpoint on the NIC `device`.
Endpoint::Options on(const char* device, ibv_qp_type type = IBV_QPT_RC) {
  return {.device = device, .type = type};
}

TEST(InfiniBand, PortsAreToldAsSuch) {
  const Endpoint a(on("emu0"));
  const Endpoint b(on("emu1"));
  const Endpoint ethernet(on("emu2"));
  for (const Endpoint* const one : {&a, &b}) {
    const ibv_port_attr port = port_of(*one);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
    EXPECT_NE(port.lid, 0);
    EXPECT_LT(port.lid, 0xc000) << "0xc000 is the first LID of a group";
    EXPECT_NE(port.sm_lid, 0);
    EXPECT_EQ(port.flags & IBV_QPF_GRH_REQUIRED, 0);
    EXPECT_EQ(port.port_cap_flags & IBV_PORT_IP_BASED_GIDS, 0U);
    ibv_gid_entry entry{};
    ASSERT_EQ(ibv_query_gid_ex(one->context.get(), 1, 0, &entry, 0), 0);
    EXPECT_EQ(entry.gid_type, IBV_GID_TYPE_IB);
    EXPECT_EQ(entry.ndev_ifindex, 0U);
    EXPECT_EQ(entry.gid.global.subnet_prefix, htobe64(0xfe80000000000000));
    EXPECT_EQ(entry.gid.global.interface_id, ibv_get_device_guid(one->context->device));
    EXPECT_NE(ibv_query_gid_ex(one->context.get(), 1, 1, &entry, 0), 0)
        << "the port has only one GID";
    __be16 pkey = 0;
    ASSERT_EQ(ibv_query_pkey(one->context.get(), 1, 0, &pkey), 0);
    EXPECT_EQ(pkey, htobe16(0xffff));
  }
  EXPECT_NE(port_of(a).lid, port_of(b).lid);
  EXPECT_EQ(port_of(a).sm_lid, port_of(b).sm_lid);
  EXPECT_EQ(port_of(ethernet).link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port_of(ethernet).lid, 0);
}

TEST(InfiniBand, ConnectionsGoByLidWithAGrhAndWithout) {
  for (const auto path : {by_lid, by_grh}) {
    Endpoint a(on("emu0"));
    Endpoint b(on("emu1"));
    ASSERT_EQ(connect(a, b, path(b)), 0);
    ASSERT_EQ(connect(b, a, path(a)), 0);
    std::memset(a.buffer.data(), 7, 64);
    ASSERT_EQ(b.post_recv(1, 0, 64), 0);
    ASSERT_EQ(a.send(2, 0, 64), 0);
    expect_completion(a, 2);
    expect_completion(b, 1);
    EXPECT_EQ(b.buffer[63], 7);
  }
}

// Each of these paths is accepted, but no packet arrives by it.
TEST(InfiniBand, RequestsByWrongPathsAreLost) {
  const auto expect_lost = [](const char* to, auto spoil) {
    Endpoint a(on("emu0"));
    Endpoint b(on(to));
    ibv_ah_attr path = by_grh(b);
    spoil(path);
    ASSERT_EQ(connect(a, b, path), 0);
    ibv_ah_attr back = by_grh(a);
    ASSERT_EQ(connect(b, a, back), 0);
    ASSERT_EQ(b.post_recv(1, 0, 64), 0);
    ASSERT_EQ(a.send(2, 0, 64), 0);
    expect_completion(a, 2, IBV_WC_RETRY_EXC_ERR);
  };
  expect_lost("emu1", [](ibv_ah_attr& path) { path.dlid = 0; });
  expect_lost("emu1", [](ibv_ah_attr& path) { ++path.dlid; });
  expect_lost("emu1", [](ibv_ah_attr& path) { path.grh.dgid.raw[15] ^= 1U; });
  // The LID of an Ethernet port is 0.
  expect_lost("emu2", [](ibv_ah_attr&) {});
  expect_lost("emu2", [](ibv_ah_attr& path) { path.is_global = 0; });
}

TEST(InfiniBand, DatagramsNameTheLidTheyCameFrom) {
  for (const auto path_to : {by_lid, by_grh}) {
    Endpoint a(on("emu0", IBV_QPT_UD));
    Endpoint b(on("emu1", IBV_QPT_UD));
    for (Endpoint* const end : {&a, &b}) {
      ASSERT_EQ(end->to_init(), 0);
      ASSERT_EQ(end->to(IBV_QPS_RTR), 0);
      ASSERT_EQ(end->to_rts(), 0);
    }
    ibv_ah_attr path = path_to(b);
    path.sl = 3;
    const Ah ah(ibv_create_ah(a.pd.get(), &path));
    ASSERT_TRUE(ah);
    ASSERT_EQ(b.post_recv(1, 0, 40 + 64), 0);  // a global header and the message
    ibv_send_wr request{};
    request.wr_id = 2;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.ud.ah = ah.get();
    request.wr.ud.remote_qpn = b.qp->qp_num;
    request.wr.ud.remote_qkey = kQkey;
    ASSERT_EQ(a.post(request, {a.element(0, 64)}), 0);
    expect_completion(a, 2);
    const ibv_wc received = expect_completion(b, 1);
    EXPECT_EQ(received.slid, port_of(a).lid);
    EXPECT_EQ(received.sl, 3);
    EXPECT_EQ(received.byte_len, 40U + 64U);
    EXPECT_EQ((received.wc_flags & IBV_WC_GRH) != 0, path.is_global != 0);
    if (path.is_global != 0) {
      auto* grh = reinterpret_cast<ibv_grh*>(b.buffer.data());
      EXPECT_EQ(std::memcmp(grh->sgid.raw, first_gid(a).raw, 16), 0);
      EXPECT_EQ(grh->next_hdr, 0x1b);
    }
  }
}

// There is no IPoIB, so no IP address leads to a port of InfiniBand, not even the address that the
// port would have on Ethernet.
TEST(InfiniBand, HasNoAddressOfTheConnectionManager) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  ASSERT_NE(channel, nullptr);
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  const Endpoint ethernet(on("emu2"));
  ibv_gid gid = ethernet.address().gid;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  std::memcpy(&address.sin_addr, gid.raw + 12, 4);
  // emu2 has the address 127.F.N.3; with Ethernet, emu0 would have 127.F.N.1.
  const in_addr_t swap_nics = htonl(3 ^ 1);
  address.sin_addr.s_addr ^= swap_nics;
  EXPECT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)), -1);
  EXPECT_TRUE(errno == ENODEV || errno == EADDRNOTAVAIL) << errno;
  address.sin_addr.s_addr ^= swap_nics;
  EXPECT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)), 0);
  EXPECT_STREQ(ibv_get_device_name(id->verbs->device), "emu2");
  rdma_destroy_id(id);
  rdma_destroy_event_channel(channel);
}

}  // namespace
}  // namespace hbmwire::test
