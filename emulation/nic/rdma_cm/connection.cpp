// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/connection.hpp"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "emulation/nic/rdma_cm/messages.hpp"
#include "emulation/nic/rdma_cm/requests.hpp"

namespace hbmwire::emulation::nic {
namespace {

bool is_datagram(const CmId& id) { return id.qp_type == IBV_QPT_UD; }

/// The queue pair types that the kernel's CM treats as connected.
bool can_connect(std::uint32_t qp_type) {
  return qp_type == IBV_QPT_RC || qp_type == IBV_QPT_UC || qp_type == IBV_QPT_XRC_SEND;
}

/// Answers a request of `id` in place of the peer, which no listener became.
void answer_undelivered(Process& process, CmId& id, Delivery outcome) {
  if (is_datagram(id)) {
    const int status = outcome == Delivery::no_listener ? kSidrUnsupported : kSidrReject;
    receive_datagram_reply(process, id, id, status, nullptr, 0);
    return;
  }
  receive_reject(process, id,
                 outcome == Delivery::no_listener ? kRejInvalidServiceId : kRejConsumer, nullptr,
                 0);
}

void send_request(Cm& cm, CmId& id) {
  const Delivery outcome = deliver_request(cm, id);
  id.request_waits = outcome == Delivery::lost ? 1 : 0;
  if (outcome == Delivery::no_listener || outcome == Delivery::refused) {
    answer_undelivered(cm.process, id, outcome);
  }
}

/// ib_send_cm_rej: changes the state of the id that rejects. Returns EINVAL if it must not reject
/// in its state.
int leave_by_reject(CmId& id) {
  switch (id.cm) {
    case CmState::req_sent:
    case CmState::req_received:
    case CmState::rep_received:
      id.cm = CmState::idle;
      id.deadline_ns = 0;
      return 0;
    case CmState::rep_sent:
      enter_timewait(id);
      return 0;
    default:
      return EINVAL;
  }
}

int accept_datagram(Process& process, CmId& id, const rdma_ucm_conn_param& parameters) {
  if (id.cm != CmState::sidr_req_received || parameters.private_data_len > kSidrRepPrivateData) {
    return EINVAL;
  }
  CmId* peer = find(tables_of(process), id.peer);
  const CmWholeStep step(process, id, peer);
  if (id.qkey == 0) id.qkey = kDefaultQkey;
  id.local_qpn = parameters.qp_num;
  id.cm = CmState::idle;
  if (peer != nullptr) {
    receive_datagram_reply(process, *peer, id, 0, parameters.private_data,
                           parameters.private_data_len);
  }
  return 0;
}

int send_reply(Process& process, CmId& id, const rdma_ucm_conn_param& parameters,
               const rdma_ucm_ece& ece) {
  if (id.cm != CmState::req_received || parameters.private_data_len > kRepPrivateData) {
    return EINVAL;
  }
  CmId* peer = find(tables_of(process), id.peer);
  const CmWholeStep step(process, id, peer);
  id.cm = CmState::rep_sent;
  id.local_qpn = parameters.qp_num;
  id.srq = parameters.srq;
  id.responder_resources = parameters.responder_resources;
  id.initiator_depth = parameters.initiator_depth;
  id.ece = ece;
  id.deadline_ns = response_deadline(tables_of(process));
  if (peer != nullptr) receive_reply(process, *peer, id, parameters);
  return 0;
}

int send_ready(Process& process, CmId& id) {
  if (id.cm != CmState::rep_received) return EINVAL;
  CmId* peer = find(tables_of(process), id.peer);
  const CmWholeStep step(process, id, peer);
  id.cm = CmState::established;
  id.deadline_ns = 0;
  if (peer != nullptr) receive_ready(process, *peer);
  return 0;
}

}  // namespace

int connect(Cm& cm, CmId& id, const rdma_ucm_conn_param& parameters, const rdma_ucm_ece& ece) {
  if (id.state != CmaState::route_resolved) return EINVAL;
  const bool by_ip = family_of(id.source) != kAfIb;
  const unsigned longest =
      (is_datagram(id) ? kSidrReqPrivateData : kReqPrivateData) - (by_ip ? kIpHeader : 0U);
  if (parameters.private_data_len > longest) return EINVAL;
  if (!is_datagram(id) && !can_connect(id.qp_type)) return EINVAL;
  id.state = CmaState::connect;
  id.cm = is_datagram(id) ? CmState::sidr_req_sent : CmState::req_sent;
  id.request = parameters;
  id.ece = ece;
  id.local_qpn = parameters.qp_num;
  id.srq = parameters.srq;
  // 24 bits that other ids, and earlier uses of this id, do not have.
  id.psn = (index_of(cm.tables(), id) * 0x61c886U + id.generation) & 0xffffffU;
  id.responder_resources = parameters.responder_resources;
  id.initiator_depth = parameters.initiator_depth;
  id.flow_control = parameters.flow_control;
  id.retry_count = std::min<std::uint32_t>(parameters.retry_count, kMostRetries);
  id.rnr_retry_count = std::min<std::uint32_t>(parameters.rnr_retry_count, kMostRetries);
  id.deadline_ns = response_deadline(cm.tables());
  send_request(cm, id);
  return 0;
}

void retry_request(Cm& cm, CmId& id) {
  if (id.request_waits != 0) send_request(cm, id);
}

int accept(Process& process, CmId& id, const rdma_ucm_conn_param* parameters,
           const rdma_ucm_ece& ece) {
  if (id.state != CmaState::connect) return EINVAL;
  int error = EINVAL;
  if (is_datagram(id)) {
    if (parameters != nullptr) error = accept_datagram(process, id, *parameters);
  } else if (parameters != nullptr) {
    error = send_reply(process, id, *parameters, ece);
  } else {
    error = send_ready(process, id);
  }
  // A failed accept ends the connection.
  if (error != 0) reject(process, id, kRejConsumer, nullptr, 0);
  return error;
}

int reject(Process& process, CmId& id, std::uint16_t reason, const std::uint8_t* data,
           std::uint8_t size) {
  if (id.cm == CmState::none) return EINVAL;
  CmId* peer = find(tables_of(process), id.peer);
  const CmWholeStep step(process, id, peer);
  if (is_datagram(id)) {
    if (id.cm != CmState::sidr_req_received || size > kSidrRepPrivateData) return EINVAL;
    id.cm = CmState::idle;
    if (peer != nullptr) receive_datagram_reply(process, *peer, id, kSidrReject, data, size);
    return 0;
  }
  if (size > kRejPrivateData) return EINVAL;
  if (const int error = leave_by_reject(id); error != 0) return error;
  if (peer != nullptr) receive_reject(process, *peer, reason, data, size);
  return 0;
}

int disconnect(Process& process, CmId& id) {
  if (id.cm == CmState::none) return EINVAL;
  CmId* peer = find(tables_of(process), id.peer);
  const CmWholeStep step(process, id, peer);
  if (id.cm == CmState::established) {
    id.cm = CmState::dreq_sent;
    id.deadline_ns = response_deadline(tables_of(process));
    if (peer != nullptr) {
      receive_disconnect_request(process, *peer);
    } else {
      receive_disconnect_reply(process, id);  // no peer is left to answer, so this ends the wait
    }
  } else if (id.cm == CmState::dreq_received) {
    enter_timewait(id);
    if (peer != nullptr) receive_disconnect_reply(process, *peer);
  }
  // In other states the kernel sends no message and reports success.
  return 0;
}

int notify(Process& process, CmId& id, std::uint32_t event) {
  if (id.cm == CmState::none || id.port.guid == 0) return EINVAL;
  if (event == IBV_EVENT_PATH_MIG) return 0;
  if (event != IBV_EVENT_COMM_EST) return EINVAL;
  if (id.cm == CmState::established) return EISCONN;
  if (id.cm != CmState::rep_sent) return EINVAL;
  receive_ready(process, id);
  return 0;
}

void deadline_passed(Process& process, CmId& id) {
  id.deadline_ns = 0;
  if (id.state == CmaState::address_query) {
    id.state = CmaState::address_bound;
    queue_event(process, id,
                make_event(tables_of(process), id, CmEventType::address_error, -ETIMEDOUT));
    return;
  }
  if (id.cm == CmState::timewait) {
    id.cm = CmState::idle;
    if (id.state == CmaState::disconnect) {
      queue_event(process, id, make_event(tables_of(process), id, CmEventType::timewait_exit));
    }
    return;
  }
  receive_nothing(process, id);
}

}  // namespace hbmwire::emulation::nic
