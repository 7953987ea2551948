// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <mutex>
#include <optional>

#include "emulation/nic/abi/raw_enum.hpp"
#include "emulation/nic/queue/completion.hpp"
#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/verbs/objects.hpp"
#include "emulation/nic/verbs/qp_transitions.hpp"

/// ibv_modify_qp and ibv_query_qp.
namespace hbmwire::emulation::nic {
namespace {

bool values_are_valid(const ibv_qp_attr& values, int mask, const DeviceInfo& device) {
  const auto given = [&](int bit) { return (mask & bit) != 0; };
  if (given(IBV_QP_PORT) && device.port(values.port_num) == nullptr) return false;
  if (given(IBV_QP_PKEY_INDEX) && values.pkey_index != 0) return false;
  const std::uint32_t mtu = raw_value(values.path_mtu);
  if (given(IBV_QP_PATH_MTU) && (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096)) return false;
  // Timers are codes of 5 bits, and retry counts have 3 bits.
  if (given(IBV_QP_TIMEOUT) && values.timeout > 31) return false;
  if (given(IBV_QP_RETRY_CNT) && values.retry_cnt > 7) return false;
  if (given(IBV_QP_RNR_RETRY) && values.rnr_retry > 7) return false;
  if (given(IBV_QP_MIN_RNR_TIMER) && values.min_rnr_timer > 31) return false;
  if (given(IBV_QP_MAX_QP_RD_ATOMIC) && values.max_rd_atomic > kMaxReadAtomic) return false;
  return !given(IBV_QP_MAX_DEST_RD_ATOMIC) || values.max_dest_rd_atomic <= kMaxReadAtomic;
}

/// Applies the attributes that `mask` names. The sender's mutex and the responder lock are held.
void apply(Qp& qp, QpRecord& record, const ibv_qp_attr& values, int mask) {
  constexpr std::uint32_t k24Bits = 0xffffff;
  ibv_qp_attr& kept = attributes_of(qp);
  Connection& connection = qp.sender->connection;
  qp.sender->close_lane_locked();
  note_change(record);
  const auto given = [&](int bit) { return (mask & bit) != 0; };
  if (given(IBV_QP_PKEY_INDEX)) kept.pkey_index = values.pkey_index;
  if (given(IBV_QP_QKEY)) record.qkey = kept.qkey = values.qkey;
  if (given(IBV_QP_PORT)) {
    const PortInfo& port = *qp.context->device.port(kept.port_num = values.port_num);
    record.port = port.fabric_port;
    record.lid = port.lid;
    // All queue pairs of a port store the same GIDs.
    auto& gids = qp.process->shared().ports[port.fabric_port].gids;
    for (std::size_t i = 0; i < port.gids.size(); ++i) gids[i].store(port.gids[i]);
  }
  if (given(IBV_QP_ACCESS_FLAGS)) {
    record.access = kept.qp_access_flags = values.qp_access_flags;
    if (!qp.context->device.behaviour.atomics)
      record.access &= ~std::uint32_t{IBV_ACCESS_REMOTE_ATOMIC};
  }
  if (given(IBV_QP_AV)) {
    kept.ah_attr = values.ah_attr;
    connection.to = destination_of(values.ah_attr, record.lid != 0);
  }
  if (given(IBV_QP_PATH_MTU)) {
    kept.path_mtu = values.path_mtu;
    record.path_mtu = connection.path_mtu = static_cast<std::uint32_t>(values.path_mtu);
    connection.path_mtu_bytes = 128U << static_cast<unsigned>(values.path_mtu);  // IBV_MTU_256 is 1
  }
  if (given(IBV_QP_DEST_QPN)) {
    connection.dest_qpn = kept.dest_qp_num = values.dest_qp_num & k24Bits;
    record.dest_qpn.store(connection.dest_qpn);
  }
  if (given(IBV_QP_RQ_PSN)) record.expected_psn = kept.rq_psn = values.rq_psn & k24Bits;
  if (given(IBV_QP_SQ_PSN)) connection.next_psn = kept.sq_psn = values.sq_psn & k24Bits;
  if (given(IBV_QP_MAX_DEST_RD_ATOMIC)) {
    record.max_dest_rd_atomic = kept.max_dest_rd_atomic = values.max_dest_rd_atomic;
  }
  if (given(IBV_QP_MIN_RNR_TIMER)) record.min_rnr_timer = kept.min_rnr_timer = values.min_rnr_timer;
  if (given(IBV_QP_MAX_QP_RD_ATOMIC)) kept.max_rd_atomic = values.max_rd_atomic;
  if (given(IBV_QP_TIMEOUT)) connection.timeout = kept.timeout = values.timeout;
  if (given(IBV_QP_RETRY_CNT)) connection.retry_count = kept.retry_cnt = values.retry_cnt;
  if (given(IBV_QP_RNR_RETRY)) connection.rnr_retry = kept.rnr_retry = values.rnr_retry;
}

/// Moves the QP to RESET and drops its requests, receives and attributes. Returns 0, or EBUSY, with
/// nothing changed, if a stopped process holds a lock.
int reset(Qp& qp, QpRecord& record) {
  const FavouredHold posting(record.posting, Place::posting);
  const Hold queue(record.queue);
  if (!queue.held() || !posting.held()) return EBUSY;
  qp.sender->reset_locked();
  qp.sender->connection = {};
  attributes_of(qp) = {};
  set_state(record, IBV_QPS_RESET);
  // Both ends of the receive queue are at the tail: it is empty.
  record.receives.head = record.receives.tail = record.posted.head = record.posted.tail;
  record.taken.valid.store(0);
  record.established = 0;
  record.last_wqe = 0;
  record.access = 0;
  record.dest_qpn.store(0);
  return 0;
}

struct Move {
  ibv_qp_state from, to;
};

/// Changes the state. The sender's mutex and the responder lock are held. Returns 0 or an errno.
/// EBUSY: a stopped process holds the queue's lock; nothing has changed.
int move(Qp& qp, QpRecord& record, const ibv_qp_attr& values, int mask, const Move& states) {
  if (states.to == IBV_QPS_RESET) return reset(qp, record);
  if (states.to == IBV_QPS_ERR) {
    enter_error(*qp.process, record, qp.handle.qp.qp_num, std::nullopt);
    return 0;
  }
  const Hold queue(record.queue);
  if (!queue.held()) return EBUSY;
  // A peer may have moved the QP to ERR since `from` was read.
  if (record.state.load() != static_cast<std::uint32_t>(states.from)) return EINVAL;
  apply(qp, record, values, mask);
  set_state(record, states.to);
  return 0;
}

/// Removes the attributes that Linux ignores for one half of an XRC connection because they belong
/// to the other half (drivers/infiniband/core/uverbs_cmd.c, modify_qp_mask).
int heeded_attributes(ibv_qp_type type, int mask) {
  if (type == IBV_QPT_XRC_SEND) return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (type == IBV_QPT_XRC_RECV)
    return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
  return mask;
}

}  // namespace

/// RoCE has no LIDs: a path is a pair of GIDs. On InfiniBand it is a pair of LIDs, and also of GIDs
/// if it has a GRH. The errors are those of Linux (drivers/infiniband/core: verbs.c,
/// rdma_check_ah_attr; cache.c, rdma_get_gid_attr).
int check_address(const ibv_ah_attr& address, const DeviceInfo& device, std::uint8_t port_num) {
  const PortInfo* port = device.port(port_num);
  if (port == nullptr || address.port_num != port_num) return EINVAL;
  if (address.is_global == 0) return port->is_infiniband() ? 0 : EINVAL;
  if (address.grh.sgid_index >= kGidTableLength) return EINVAL;
  return port->gids[address.grh.sgid_index] != Gid{} ? 0 : ENODATA;
}

Destination destination_of(const ibv_ah_attr& address, bool infiniband) {
  Destination there;
  there.global = address.is_global != 0;
  if (infiniband) there.lid = address.dlid;
  if (there.global) std::copy_n(address.grh.dgid.raw, there.gid.size(), there.gid.begin());
  return there;
}

int modify_qp(ibv_qp* handle, ibv_qp_attr* values, int mask) {
  mask = heeded_attributes(handle->qp_type, mask);
  Qp& qp = object_of<Qp>(handle);
  Process& process = *qp.process;
  if (const int error = planned_failure(process, "ibv_modify_qp"); error != 0) return error;
  QpRecord& record = process.shared().qps[qp.index];
  Sender& sender = *qp.sender;
  const std::lock_guard guard(sender.mutex);
  const auto from = static_cast<ibv_qp_state>(record.state.load());
  if ((mask & IBV_QP_STATE) != 0 && raw_value(values->qp_state) > IBV_QPS_ERR) return EINVAL;
  if ((mask & IBV_QP_CUR_STATE) != 0 && raw_value(values->cur_qp_state) > IBV_QPS_ERR)
    return EINVAL;
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? values->qp_state : from;
  if ((mask & IBV_QP_CUR_STATE) != 0 && values->cur_qp_state != from) return EINVAL;
  const DeviceInfo& device = qp.context->device;
  if (!is_transition(handle->qp_type, from, to, mask) || !values_are_valid(*values, mask, device))
    return EINVAL;
  if ((mask & IBV_QP_AV) != 0) {
    if (const int error = check_address(values->ah_attr, device, attributes_of(qp).port_num);
        error != 0) {
      return error;
    }
  }
  if ((mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)) != 0) return EOPNOTSUPP;
  bool wake = false;
  {
    // With this lock held no request is in execution in the QP: after a move to RESET or ERR no
    // byte changes.
    const FavouredHold responder(record.responder, Place::responder);
    if (!responder.held()) return EBUSY;
    if (const int error = move(qp, record, *values, mask, {from, to}); error != 0) return error;
    // A QP in RESET takes no requests, so the peer need not try again.
    wake = record.sender_waits.load() != 0 && to != IBV_QPS_RESET;
  }
  if (to == IBV_QPS_RESET) purge_completions(qp);
  if (wake) wake_sender(process, record);
  sender.progress_locked();
  if ((mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && values->en_sqd_async_notify != 0)
    sender.notify_drained_locked();
  return 0;
}

int query_qp(ibv_qp* handle, ibv_qp_attr* values, int /*mask*/, ibv_qp_init_attr* initial) {
  Qp& qp = object_of<Qp>(handle);
  if (const int error = planned_failure(*qp.process, "ibv_query_qp"); error != 0) return error;
  const std::lock_guard guard(qp.sender->mutex);
  std::optional<FavouredHold> responder;
  // Other processes may modify the attributes of an XRC_RECV QP.
  if (qp.xrc_handle != 0) responder.emplace(record_of(qp).responder, Place::responder);
  if (responder && !responder->held()) return EBUSY;
  *values = attributes_of(qp);
  values->qp_state = static_cast<ibv_qp_state>(qp.process->shared().qps[qp.index].state.load());
  values->cur_qp_state = values->qp_state;
  values->cap = qp.cap;
  values->sq_draining = values->qp_state == IBV_QPS_SQD && qp.sender->is_busy_locked() ? 1 : 0;
  if (initial != nullptr) {
    *initial = {handle->qp_context,
                handle->send_cq,
                handle->recv_cq,
                handle->srq,
                qp.cap,
                handle->qp_type,
                qp.sender->limits().signal_all ? 1 : 0};
  }
  return 0;
}

}  // namespace hbmwire::emulation::nic
