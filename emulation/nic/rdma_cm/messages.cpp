// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/messages.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "emulation/nic/rdma_cm/connection.hpp"
#include "emulation/nic/rdma_cm/qp_attributes.hpp"

namespace hbmwire::emulation::nic {
namespace {

void report_disconnect(Process& process, CmId& id, int status) {
  if (id.state != CmaState::connect) return;
  id.state = CmaState::disconnect;
  queue_event(process, id, make_event(tables_of(process), id, CmEventType::disconnected, status));
}

}  // namespace

std::uint64_t response_deadline(const CmTables& tables) {
  const std::uint64_t ms =
      tables.response_timeout_ms != 0 ? tables.response_timeout_ms : kResponseTimeoutMs;
  return now_ns() + ms * 1'000'000;
}

void enter_timewait(CmId& id) {
  id.cm = CmState::timewait;
  id.deadline_ns = now_ns() + kTimewaitNs;
}

void receive_reply(Process& process, CmId& to, const CmId& from,
                   const rdma_ucm_conn_param& parameters) {
  if (to.cm != CmState::req_sent) return;
  to.cm = CmState::rep_received;
  to.remote_qpn = from.local_qpn;
  to.remote_psn = from.psn;
  // The resources that one side offers as responder are those that the other uses as initiator.
  to.responder_resources = parameters.initiator_depth;
  to.initiator_depth = parameters.responder_resources;
  to.rnr_retry_count = std::min<std::uint32_t>(parameters.rnr_retry_count, kMostRetries);
  to.deadline_ns = 0;
  if (to.state != CmaState::connect) return;
  rdma_ucm_event_resp event = make_event(tables_of(process), to, CmEventType::connect_response);
  event.ece = from.ece;
  rdma_ucm_conn_param& told = event.param.conn;
  std::memcpy(told.private_data, parameters.private_data, parameters.private_data_len);
  told.private_data_len = kRepPrivateData;
  told.responder_resources = parameters.initiator_depth;
  told.initiator_depth = parameters.responder_resources;
  told.flow_control = parameters.flow_control;
  told.rnr_retry_count = static_cast<std::uint8_t>(to.rnr_retry_count);
  told.srq = parameters.srq != 0 ? 1 : 0;
  told.qp_num = from.local_qpn;
  queue_event(process, to, event);
}

void receive_ready(Process& process, CmId& to) {
  if (to.cm != CmState::rep_sent) return;
  to.cm = CmState::established;
  to.deadline_ns = 0;
  if (to.state != CmaState::connect) return;
  queue_event(process, to, make_event(tables_of(process), to, CmEventType::established));
}

void receive_reject(Process& process, CmId& to, std::uint16_t reason, const std::uint8_t* data,
                    std::uint8_t size) {
  switch (to.cm) {
    case CmState::req_sent:
    case CmState::req_received:
    case CmState::rep_sent:
      to.cm = CmState::idle;
      to.deadline_ns = 0;
      to.request_waits = 0;
      break;
    case CmState::rep_received:
    case CmState::established:
    case CmState::dreq_sent:
      enter_timewait(to);
      break;
    default:
      return;
  }
  if (to.state != CmaState::connect) return;
  rdma_ucm_event_resp event = make_event(tables_of(process), to, CmEventType::rejected, reason);
  if (size != 0) std::memcpy(event.param.conn.private_data, data, size);
  event.param.conn.private_data_len = kRejPrivateData;
  queue_event(process, to, event);
}

void receive_disconnect_request(Process& process, CmId& to) {
  // rep_sent: the peer was ready, but has ended before it could say so.
  if (to.cm != CmState::established && to.cm != CmState::rep_sent && to.cm != CmState::dreq_sent) {
    return;
  }
  to.cm = CmState::dreq_received;
  to.deadline_ns = 0;
  report_disconnect(process, to, 0);
}

void receive_disconnect_reply(Process& process, CmId& to) {
  if (to.cm != CmState::dreq_sent && to.cm != CmState::dreq_received) return;
  enter_timewait(to);
  report_disconnect(process, to, 0);
}

void receive_datagram_reply(Process& process, CmId& to, const CmId& from, int status,
                            const std::uint8_t* data, std::uint8_t size) {
  if (to.cm != CmState::sidr_req_sent) return;
  to.cm = CmState::idle;
  to.deadline_ns = 0;
  to.request_waits = 0;
  if (to.state != CmaState::connect) return;
  const bool accepted = status == 0;
  rdma_ucm_event_resp event =
      make_event(tables_of(process), to,
                 accepted ? CmEventType::established : CmEventType::unreachable, status);
  rdma_ucm_ud_param& told = event.param.ud;
  if (size != 0) std::memcpy(told.private_data, data, size);
  told.private_data_len = kSidrRepPrivateData;
  if (accepted) {
    if (to.qkey == 0) to.qkey = from.qkey;
    told.qp_num = from.local_qpn;
    told.qkey = from.qkey;
    told.ah_attr = address_handle_of(to);
  }
  queue_event(process, to, event);
}

void receive_nothing(Process& process, CmId& to) {
  to.request_waits = 0;
  to.deadline_ns = 0;
  if (to.cm == CmState::dreq_sent) {
    enter_timewait(to);
    report_disconnect(process, to, -ETIMEDOUT);
    return;
  }
  to.cm = CmState::idle;
  if (to.state != CmaState::connect) return;
  queue_event(process, to,
              make_event(tables_of(process), to, CmEventType::unreachable, -ETIMEDOUT));
}

}  // namespace hbmwire::emulation::nic
