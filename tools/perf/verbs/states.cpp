// SPDX-License-Identifier: MIT
#include "tools/perf/verbs/states.hpp"

#include <cerrno>

namespace hbmwire::tools::perf {
namespace {

constexpr std::uint8_t kMinRnrTimer = 12;  // 0.64 ms between receiver-not-ready retries
// 7 means without limit (ibv_modify_qp(3)): the death of the peer is noticed elsewhere.
constexpr std::uint8_t kReceiverRetries = 7;

Outcome<void> modify(const Work& work, ibv_qp* qp, ibv_qp_attr& attributes, int mask,
                     const char* call) {
  const int result = ibv_modify_qp(qp, &attributes, mask);
  if (result == 0) return {};
  return tl::make_unexpected(system_error(Stage::connect, call,
                                          result > 0 ? result : (errno != 0 ? errno : EIO),
                                          work.side.nic.info().name, Hint::qp_attributes));
}

unsigned access_flags(const PerfRequest& request) noexcept {
  switch (kind_of(request.test).verb) {
    case Verb::write:
      return IBV_ACCESS_REMOTE_WRITE;
    case Verb::read:
      return IBV_ACCESS_REMOTE_READ;
    case Verb::atomic:
      return IBV_ACCESS_REMOTE_ATOMIC;
    default:
      return 0;
  }
}

}  // namespace

ibv_qp_type type_of(PerfConnection connection) noexcept {
  switch (connection) {
    case PerfConnection::uc:
      return IBV_QPT_UC;
    case PerfConnection::ud:
      return IBV_QPT_UD;
    default:
      return IBV_QPT_RC;
  }
}

Outcome<void> to_init(const Work& work, ibv_qp* qp) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = work.side.nic.info().port;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (work.request.connection == PerfConnection::ud) {
    attributes.qkey = kQueueKey;
    mask |= IBV_QP_QKEY;
  } else {
    attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | access_flags(work.request);
    mask |= IBV_QP_ACCESS_FLAGS;
  }
  return modify(work, qp, attributes, mask, "ibv_modify_qp to INIT");
}

Outcome<void> to_ready(const Work& work, ibv_qp* qp, const Route& route) {
  const bool datagrams = work.request.connection == PerfConnection::ud;
  const bool reliable = work.request.connection == PerfConnection::rc;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.ah_attr = route.path;
  attributes.path_mtu = route.mtu;
  attributes.dest_qp_num = route.remote_queue;
  attributes.rq_psn = route.receive_sequence;
  attributes.max_dest_rd_atomic = route.reads_in;
  attributes.min_rnr_timer = kMinRnrTimer;
  int mask = IBV_QP_STATE;
  if (!datagrams) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (reliable) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  HBMWIRE_TRY(modify(work, qp, attributes, mask, "ibv_modify_qp to RTR"));

  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = route.send_sequence;
  attributes.timeout = work.request.ack_timeout;
  attributes.retry_cnt = work.request.retries;
  attributes.rnr_retry = kReceiverRetries;
  attributes.max_rd_atomic = route.reads_out;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (reliable)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return modify(work, qp, attributes, mask, "ibv_modify_qp to RTS");
}

Outcome<void> to_reset(const Work& work, ibv_qp* qp) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  return modify(work, qp, attributes, IBV_QP_STATE, "ibv_modify_qp to RESET");
}

}  // namespace hbmwire::tools::perf
