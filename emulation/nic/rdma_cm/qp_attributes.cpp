// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/qp_attributes.hpp"

#include <endian.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "emulation/nic/rdma_cm/address.hpp"
#include "emulation/nic/rdma_cm/connection.hpp"

namespace hbmwire::emulation::nic {
namespace {

constexpr std::uint8_t kHopLimit = 64;
constexpr std::uint8_t kPathMtu = IBV_MTU_4096;
constexpr std::uint8_t kRate = 16;            // IB_RATE_100_GBPS, the rate of the ports
constexpr std::uint8_t kPacketLifeTime = 16;  // the kernel's value for every path of RoCE
constexpr std::uint8_t kTimeout = 18;         // there and back, plus the NIC's own delay
constexpr std::uint8_t kExactly = 2;          // a selector of fields of a path

bool is_any_of(CmState state, std::initializer_list<CmState> wanted) {
  for (const CmState one : wanted) {
    if (state == one) return true;
  }
  return false;
}

bool has_responder(std::uint32_t qp_type) {
  return qp_type == IBV_QPT_RC || qp_type == IBV_QPT_XRC_RECV;
}

bool has_requester(std::uint32_t qp_type) {
  return qp_type == IBV_QPT_RC || qp_type == IBV_QPT_XRC_SEND;
}

/// Attributes for an id that is used for datagrams, or is not connected yet.
int attributes_without_peer(CmId& id, ib_uverbs_qp_attr& attributes) {
  attributes.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  attributes.port_num = static_cast<std::uint8_t>(id.port.port);
  if (id.qp_type != IBV_QPT_UD) {
    attributes.qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
    return 0;
  }
  if (id.qkey == 0) id.qkey = kDefaultQkey;
  attributes.qkey = id.qkey;
  attributes.qp_attr_mask |= IBV_QP_QKEY;
  return 0;
}

int attributes_for_init(const CmId& id, ib_uverbs_qp_attr& attributes) {
  using enum CmState;
  if (!is_any_of(id.cm, {req_sent, req_received, rep_sent, rep_received, established}))
    return EINVAL;
  attributes.qp_attr_mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (id.responder_resources != 0) {
    attributes.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  }
  attributes.port_num = static_cast<std::uint8_t>(id.port.port);
  return 0;
}

int attributes_for_receive(const CmId& id, ib_uverbs_qp_attr& attributes) {
  using enum CmState;
  if (!is_any_of(id.cm, {req_received, rep_sent, rep_received, established})) return EINVAL;
  attributes.qp_attr_mask =
      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  attributes.ah_attr = address_handle_of(id);
  attributes.path_mtu = kPathMtu;
  attributes.dest_qp_num = id.remote_qpn;
  attributes.rq_psn = id.psn;
  if (has_responder(id.qp_type)) {
    attributes.qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    attributes.max_dest_rd_atomic = static_cast<std::uint8_t>(id.responder_resources);
  }
  return 0;
}

int attributes_for_send(const CmId& id, ib_uverbs_qp_attr& attributes) {
  using enum CmState;
  if (!is_any_of(id.cm, {req_received, rep_sent, rep_received, established})) return EINVAL;
  attributes.qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  attributes.sq_psn = id.remote_psn;
  if (has_requester(id.qp_type)) {
    attributes.qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    attributes.retry_cnt = static_cast<std::uint8_t>(id.retry_count);
    attributes.rnr_retry = static_cast<std::uint8_t>(id.rnr_retry_count);
    attributes.max_rd_atomic = static_cast<std::uint8_t>(id.initiator_depth);
  }
  if (has_requester(id.qp_type) || id.qp_type == IBV_QPT_XRC_RECV) {
    attributes.qp_attr_mask |= IBV_QP_TIMEOUT;
    attributes.timeout = id.acknowledge_timeout != 0
                             ? static_cast<std::uint8_t>(id.acknowledge_timeout - 1)
                             : kTimeout;
  }
  return 0;
}

}  // namespace

ib_uverbs_ah_attr address_handle_of(const CmId& id) {
  ib_uverbs_ah_attr handle{};
  std::memcpy(handle.grh.dgid, id.remote_gid.data(), id.remote_gid.size());
  handle.grh.sgid_index = static_cast<std::uint8_t>(id.port.gid_index);
  handle.grh.hop_limit = kHopLimit;
  handle.grh.traffic_class = static_cast<std::uint8_t>(id.service_type);
  handle.is_global = 1;
  handle.port_num = static_cast<std::uint8_t>(id.port.port);
  return handle;
}

int init_qp_attributes(CmId& id, std::uint32_t state, ib_uverbs_qp_attr& attributes) {
  attributes = {};
  attributes.qp_state = static_cast<std::uint8_t>(state);
  if (state > IBV_QPS_ERR || id.port.guid == 0) return EINVAL;
  if (id.cm == CmState::none || id.qp_type == IBV_QPT_UD) {
    return attributes_without_peer(id, attributes);
  }
  switch (state) {
    case IBV_QPS_INIT:
      return attributes_for_init(id, attributes);
    case IBV_QPS_RTR:
      return attributes_for_receive(id, attributes);
    case IBV_QPS_RTS:
      return attributes_for_send(id, attributes);
    default:
      return EINVAL;
  }
}

std::uint32_t count_paths(const CmId& id) {
  return id.state == CmaState::route_resolved || id.state == CmaState::connect ||
                 id.state == CmaState::disconnect
             ? 1
             : 0;
}

ib_user_path_rec path_of(const CmId& id) {
  ib_user_path_rec path{};
  std::memcpy(path.dgid, id.remote_gid.data(), sizeof path.dgid);
  std::memcpy(path.sgid, id.port.gid.data(), sizeof path.sgid);
  path.pkey = htobe16(kDefaultPkey);
  if (count_paths(id) == 0) return path;
  path.reversible = 1;
  path.numb_path = 1;
  path.hop_limit = kHopLimit;
  path.traffic_class = static_cast<std::uint8_t>(id.service_type);
  path.mtu_selector = path.rate_selector = path.packet_life_time_selector = kExactly;
  path.mtu = kPathMtu;
  path.rate = kRate;
  path.packet_life_time = kPacketLifeTime;
  return path;
}

ib_path_rec_data packed_path_of(const CmId& id) {
  // The path record of InfiniBand 15.2.5.16, byte by byte.
  std::array<std::uint8_t, 64> wire{};
  static_assert(sizeof wire == sizeof ib_path_rec_data::path_rec);
  const std::uint64_t service = service_id(id.port_space, id.destination);
  std::memcpy(wire.data(), &service, 8);
  std::memcpy(&wire[8], id.remote_gid.data(), 16);
  std::memcpy(&wire[24], id.port.gid.data(), 16);
  wire[47] = kHopLimit;
  wire[48] = static_cast<std::uint8_t>(id.service_type);
  wire[49] = 0x80 | 1;         // reversible, one path
  wire[50] = wire[51] = 0xff;  // kDefaultPkey
  wire[54] = kExactly << 6 | kPathMtu;
  wire[55] = kExactly << 6 | kRate;
  wire[56] = kExactly << 6 | kPacketLifeTime;
  ib_path_rec_data data{};
  data.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  std::memcpy(data.path_rec, wire.data(), wire.size());
  return data;
}

}  // namespace hbmwire::emulation::nic
