// SPDX-License-Identifier: MIT
#include "verbs/queue_pair.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "base/incarnation.hpp"
#include "verbs/calls.hpp"
#include "verbs/port.hpp"

namespace hbmwire::verbs {

namespace {

// Packets cross routers, too. With 1, a common setting, they would expire at the first router.
constexpr std::uint8_t kHopLimit = 64;

unsigned verbs_qp_access(Access access) noexcept {
  unsigned flags = IBV_ACCESS_LOCAL_WRITE;
  if (has(access, Access::remote_write)) flags |= IBV_ACCESS_REMOTE_WRITE;
  if (has(access, Access::remote_read)) flags |= IBV_ACCESS_REMOTE_READ;
  if (has(access, Access::remote_atomic)) flags |= IBV_ACCESS_REMOTE_ATOMIC;
  return flags;
}

Result<void> modify(const detail::NicState& nic, ibv_qp* qp, ibv_qp_attr& attributes, int mask,
                    const char* call) {
  return from_errno_result(ibv_modify_qp(qp, &attributes, mask), Stage::connect, call,
                           nic.info.name, Hint::qp_attributes);
}

ibv_ah_attr path_to(const detail::NicState& nic, const Wiring& wiring) noexcept {
  const ConnectionAddress& remote = wiring.remote;
  ibv_ah_attr path{};
  path.dlid = remote.lid;
  path.port_num = nic.info.port;
  // RoCE always has a GRH. InfiniBand needs it only between subnets, but accepts it within one.
  path.is_global = 1;
  std::copy(remote.gid.begin(), remote.gid.end(), std::begin(path.grh.dgid.raw));
  path.grh.sgid_index = nic.info.gid_index;
  path.grh.traffic_class = wiring.traffic_class;
  path.sl = wiring.service_level;
  path.grh.hop_limit = kHopLimit;
  return path;
}

ibv_ah_attr to_attributes(const AddressPath& from) noexcept {
  ibv_ah_attr path{};
  std::memcpy(path.grh.dgid.raw, from.gid.data(), from.gid.size());
  path.grh.flow_label = from.flow_label;
  path.grh.sgid_index = from.own_gid;
  path.grh.hop_limit = from.hop_limit;
  path.grh.traffic_class = from.traffic_class;
  path.dlid = from.lid;
  path.sl = from.service_level;
  path.src_path_bits = from.source_path_bits;
  path.static_rate = from.static_rate;
  path.is_global = from.global ? 1 : 0;
  path.port_num = from.port;
  return path;
}

/// 24 random bits, getrandom(2).
std::uint32_t random_packet_sequence() {
  std::uint32_t value = 0;
  // The call fails only on kernels without getrandom(2); the standard library's source serves
  // there.
  if (::getrandom(&value, sizeof value, 0) != sizeof value) value = std::random_device{}();
  return value & 0xffffffU;
}

}  // namespace

Result<void> check_link(const detail::NicState& nic, const ConnectionAddress& local,
                        const ConnectionAddress& remote) {
  if (local.ethernet == remote.ethernet) return {};
  return tl::make_unexpected(
      make_error(Errc::invalid_argument, Stage::connect,
                 "one side's port is Ethernet (RoCE), the other's InfiniBand", nic.info.name,
                 Hint::qp_attributes));
}

Result<void> to_init(const detail::NicState& nic, ibv_qp* qp, Access access,
                     std::uint16_t pkey_index) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = nic.info.port;
  attributes.pkey_index = pkey_index;
  attributes.qp_access_flags = verbs_qp_access(access);
  return modify(nic, qp, attributes,
                IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                "ibv_modify_qp to INIT");
}

Result<void> to_ready(const detail::NicState& nic, ibv_qp* qp, const Wiring& wiring) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.ah_attr = wiring.path ? to_attributes(*wiring.path) : path_to(nic, wiring);
  attributes.path_mtu = mtu_from_bytes(std::min(wiring.local.mtu_bytes, wiring.remote.mtu_bytes));
  attributes.dest_qp_num = wiring.remote.queue_pair;
  attributes.rq_psn = wiring.remote.packet_sequence;
  attributes.max_dest_rd_atomic = wiring.reads_in;
  attributes.min_rnr_timer = wiring.receiver_wait;
  HBMWIRE_TRY(modify(nic, qp, attributes,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                     "ibv_modify_qp to RTR"));
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = wiring.local.packet_sequence;
  attributes.timeout = wiring.ack_timeout;
  attributes.retry_cnt = wiring.retries;
  attributes.rnr_retry = wiring.receiver_retries;
  attributes.max_rd_atomic = wiring.reads_out;
  return modify(nic, qp, attributes,
                IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
                "ibv_modify_qp to RTS");
}

Result<void> to_reset(const detail::NicState& nic, ibv_qp* qp) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  return modify(nic, qp, attributes, IBV_QP_STATE, "ibv_modify_qp to RESET");
}

Result<void> to_error(const detail::NicState& nic, ibv_qp* qp) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  return modify(nic, qp, attributes, IBV_QP_STATE, "ibv_modify_qp to ERR");
}

ConnectionAddress port_address(const detail::NicState& nic, const PortEntries& entries) {
  ConnectionAddress address;
  std::copy(std::begin(nic.gid.raw), std::end(nic.gid.raw), address.gid.begin());
  address.mtu_bytes = entries.mtu_bytes;
  address.lid = nic.lid;
  address.ethernet = nic.info.ethernet;
  address.max_message_bytes = nic.info.max_message_bytes;
  address.incarnation = incarnation();
  return address;
}

ConnectionAddress local_address(const detail::NicState& nic, const ibv_qp* qp,
                                const PortEntries& entries) {
  ConnectionAddress address = port_address(nic, entries);
  address.queue_pair = qp->qp_num;
  address.packet_sequence = random_packet_sequence();
  return address;
}

AddressPath to_address_path(const ibv_ah_attr& from) noexcept {
  AddressPath path;
  std::memcpy(path.gid.data(), from.grh.dgid.raw, path.gid.size());
  path.flow_label = from.grh.flow_label;
  path.lid = from.dlid;
  path.own_gid = from.grh.sgid_index;
  path.hop_limit = from.grh.hop_limit;
  path.traffic_class = from.grh.traffic_class;
  path.service_level = from.sl;
  path.source_path_bits = from.src_path_bits;
  path.static_rate = from.static_rate;
  path.port = from.port_num;
  path.global = from.is_global != 0;
  return path;
}

Error completion_error(int status, std::string_view subject) noexcept {
  Errc code = Errc::system;
  Hint hint = Hint::none;
  switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
      code = Errc::permission_denied;
      hint = Hint::remote_key;
      break;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      code = Errc::peer_failed;
      hint = Hint::peer_unreachable;
      break;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      code = Errc::peer_failed;
      hint = Hint::receiver_not_ready;
      break;
    case IBV_WC_REM_OP_ERR:
      code = Errc::peer_failed;
      hint = Hint::peer_memory_gone;
      break;
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_WR_FLUSH_ERR:
      code = Errc::peer_failed;
      break;
    case IBV_WC_LOC_PROT_ERR:
      code = Errc::invalid_argument;
      hint = Hint::memory_gone;
      break;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
      code = Errc::invalid_argument;
      break;
    default:
      break;
  }
  Error error = make_error(code, Stage::complete, "a work request failed", subject, hint);
  error.number_kind = NumberKind::wc_status;
  error.number = status;
  return error;
}

}  // namespace hbmwire::verbs
