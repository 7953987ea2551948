// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include "emulation/tests/nic/endpoint.hpp"

/// Queue pairs of ibv_create_qp_ex, with the ibv_wr_* functions: RC, UC and UD.
namespace hbmwire::test {

inline constexpr std::uint64_t kOpsOfUd = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
inline constexpr std::uint64_t kOpsOfUc =
    kOpsOfUd | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |
    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
inline constexpr std::uint64_t kOpsOfRc = kOpsOfUc | IBV_QP_EX_WITH_RDMA_READ |
                                          IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                          IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

/// The operations that man ibv_wr_post allows on queue pairs of a type.
inline std::uint64_t ops_of(ibv_qp_type type) {
  return type == IBV_QPT_UD ? kOpsOfUd : type == IBV_QPT_UC ? kOpsOfUc : kOpsOfRc;
}

/// Attributes for a queue pair with all operations of its type.
inline ibv_qp_init_attr_ex attributes_of(const Endpoint& at, ibv_qp_type type) {
  ibv_qp_init_attr_ex attributes{};
  attributes.qp_type = type;
  attributes.send_cq = attributes.recv_cq = at.cq.get();
  attributes.cap = {16, 16, 4, 4, 64};
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attributes.pd = at.pd.get();
  attributes.send_ops_flags = ops_of(type);
  return attributes;
}

/// An endpoint whose QP has the ibv_wr_* functions. Its requests are signaled.
struct Extended : Endpoint {
  explicit Extended(ibv_qp_type type) : Endpoint({.mr_access = kAllAccess | IBV_ACCESS_MW_BIND}) {
    ibv_qp_init_attr_ex attributes = attributes_of(*this, type);
    qp.reset(ibv_create_qp_ex(context.get(), &attributes));
    EXPECT_NE(qp, nullptr);
    ex = ibv_qp_to_qp_ex(qp.get());
    ex->wr_flags = IBV_SEND_SIGNALED;
  }

  void connect_to(const Address& peer) {
    if (qp->qp_type == IBV_QPT_RC) return connect(peer);
    ibv_qp_attr values{};
    values.qp_state = IBV_QPS_INIT;
    values.port_num = 1;
    values.qp_access_flags = kAllAccess;
    values.qkey = kQkey;
    const bool datagram = qp->qp_type == IBV_QPT_UD;
    const int first = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    ASSERT_EQ(
        ibv_modify_qp(qp.get(), &values, first | (datagram ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
        0);
    values.qp_state = IBV_QPS_RTR;
    values.path_mtu = IBV_MTU_1024;
    values.dest_qp_num = peer.qpn;
    values.rq_psn = peer.psn;
    values.ah_attr = path_to(peer);
    const int path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    ASSERT_EQ(ibv_modify_qp(qp.get(), &values, IBV_QP_STATE | (datagram ? 0 : path)), 0);
    values.qp_state = IBV_QPS_RTS;
    values.sq_psn = psn;
    ASSERT_EQ(ibv_modify_qp(qp.get(), &values, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }

  /// The path to a peer, for an address handle or a connection.
  static ibv_ah_attr path_to(const Address& peer) {
    ibv_ah_attr path{};
    path.is_global = 1;
    path.port_num = 1;
    path.grh.dgid = peer.gid;
    path.grh.sgid_index = kGidIndex;
    path.grh.hop_limit = 64;
    return path;
  }

  ibv_qp_ex* ex = nullptr;
};

/// Two connected endpoints of this kind.
struct ExtendedPair {
  explicit ExtendedPair(ibv_qp_type type = IBV_QPT_RC) : a(type), b(type) {
    a.connect_to(b.address());
    b.connect_to(a.address());
  }

  Extended a;
  Extended b;
};

/// Gives the current request a part of the endpoint's buffer.
inline void set_data(const Extended& at, std::size_t offset, std::uint32_t length) {
  const ibv_sge element = at.element(offset, length);
  ibv_wr_set_sge(at.ex, element.lkey, element.addr, element.length);
}

}  // namespace hbmwire::test
