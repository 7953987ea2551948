// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/requests.hpp"

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "emulation/nic/rdma_cm/event_queue.hpp"
#include "emulation/nic/rdma_cm/messages.hpp"

namespace hbmwire::emulation::nic {
namespace {

struct Match {
  std::uint32_t listener = 0;
  CmPort port{};
};

/// Whether a listener's bound address accepts requests to `destination`.
bool takes(const CmId& listener, const CmAddress& destination) {
  const CmAddress& bound = listener.source;
  if (!is_any(bound)) return same_address(bound, destination);
  return listener.family_only == 0 || family_of(bound) == family_of(destination);
}

/// The port that the request comes in by. Nullopt if the listener does not get it: its node must
/// have the destination's address; for a loopback address it must be on our node or in our network
/// namespace.
std::optional<CmPort> port_at(Cm& cm, const CmId& id, std::uint32_t listener) {
  const CmTables& tables = cm.tables();
  const std::uint64_t node = tables.keys[listener].node;
  const CmAddress& to = id.destination;
  if (!is_any(to)) return cm.ports.port_with(node, gid_of(to));
  if (node != cm.node && tables.ids[listener].network != id.network) return std::nullopt;
  return cm.ports.loopback_port(node, family_of(to));
}

/// Listeners of our own node come first, because several nodes may share a network namespace and
/// its addresses.
Match find_listener(Cm& cm, const CmId& id) {
  const CmTables& tables = cm.tables();
  const std::uint16_t port = port_of(id.destination);
  Match found;
  for (const CmKey& key : in_use(tables.keys, tables.listening)) {
    const std::uint32_t i = index_in(tables.keys, key);
    if (key.claimed == 0 || key.listening == 0 || key.bound_port != port ||
        key.port_space != id.port_space) {
      continue;
    }
    const bool ours = key.node == cm.node;
    if (found.listener != 0 && !ours) continue;
    if (!takes(tables.ids[i], id.destination) || !cm.process.alive(key.owner)) continue;
    const auto arrival = port_at(cm, id, i);
    if (!arrival) continue;
    found = {i, *arrival};
    if (ours) break;
  }
  return found;
}

/// Copies a request's private data as the listener sees it. The kernel's CM puts a header in front
/// of it, which only a listener on AF_IB sees.
std::uint8_t copy_private_data(const CmId& listener, const rdma_ucm_conn_param& request,
                               std::uint8_t capacity, std::uint8_t* to) {
  if (family_of(listener.source) != kAfIb) {
    std::memcpy(to, request.private_data, request.private_data_len);
    return static_cast<std::uint8_t>(capacity - kIpHeader);
  }
  std::memcpy(to + kIpHeader, request.private_data, request.private_data_len);
  return capacity;
}

CmAddress as_seen_by(const CmId& listener, const CmAddress& address) {
  if (family_of(listener.source) != kAfIb) return address;
  auto form = address_as<IbAddress>(listener.source);
  form.gid = gid_of(address);
  CmAddress seen{};
  set_address(seen, form);
  return seen;
}

/// Makes the id of the passive side. Its owner learns of it from the event.
std::uint32_t make_request_id(CmTables& tables, const CmId& id, const Match& match) {
  const CmKey& listening = tables.keys[match.listener];
  const CmId& listener = tables.ids[match.listener];
  const std::uint32_t index = claim_id(tables, listening.owner);
  if (index == 0) return 0;
  tables.keys[index].node = listening.node;
  tables.keys[index].port_space = listening.port_space;
  CmId& made = tables.ids[index];
  set_channel(tables, made, listener.channel);
  made.listener = match.listener;
  made.network = listener.network;
  made.port_space = listener.port_space;
  made.qp_type = listener.qp_type;
  made.source = as_seen_by(listener, id.destination);
  made.destination = as_seen_by(listener, id.source);
  made.port = match.port;
  made.remote_gid = id.port.gid;
  made.service_type = id.service_type;
  made.state = CmaState::connect;
  made.cm = id.qp_type == IBV_QPT_UD ? CmState::sidr_req_received : CmState::req_received;
  made.peer = refer_to(tables, id);
  made.remote_qpn = id.local_qpn;
  made.remote_psn = id.psn;
  made.psn = index * 0x9e3779U & 0xffffffU;  // 24 bits that other ids do not have
  // Each side serves the READs and atomics that the other may have outstanding.
  made.responder_resources = id.initiator_depth;
  made.initiator_depth = id.responder_resources;
  made.retry_count = id.retry_count;
  made.rnr_retry_count = id.rnr_retry_count;
  return index;
}

rdma_ucm_event_resp describe(const CmTables& tables, const CmId& id, const CmId& listener) {
  rdma_ucm_event_resp event = make_event(tables, listener, CmEventType::connect_request);
  if (id.qp_type == IBV_QPT_UD) {
    event.param.ud.private_data_len =
        copy_private_data(listener, id.request, kSidrReqPrivateData, event.param.ud.private_data);
    return event;
  }
  rdma_ucm_conn_param& told = event.param.conn;
  told.private_data_len =
      copy_private_data(listener, id.request, kReqPrivateData, told.private_data);
  told.responder_resources = static_cast<std::uint8_t>(id.initiator_depth);
  told.initiator_depth = static_cast<std::uint8_t>(id.responder_resources);
  told.flow_control = static_cast<std::uint8_t>(id.flow_control);
  told.retry_count = static_cast<std::uint8_t>(id.retry_count);
  told.rnr_retry_count = static_cast<std::uint8_t>(id.rnr_retry_count);
  told.srq = id.srq != 0 ? 1 : 0;
  told.qp_num = id.local_qpn;
  event.ece = id.ece;
  return event;
}

/// Whether the queue pair types match. For XRC, a sending one connects to a receiving one.
bool types_meet(const CmId& id, const CmId& listener) {
  if (id.qp_type == IBV_QPT_XRC_SEND) return listener.qp_type == IBV_QPT_XRC_RECV;
  return id.qp_type == listener.qp_type;
}

}  // namespace

Delivery deliver_request(Cm& cm, CmId& id) {
  CmTables& tables = cm.tables();
  if (!cm.ports.is_up(id.port)) return Delivery::lost;
  const Match match = find_listener(cm, id);
  if (match.listener == 0) return Delivery::no_listener;
  if (!cm.ports.is_up(match.port)) return Delivery::lost;
  CmId& listener = tables.ids[match.listener];
  if (!types_meet(id, listener)) return Delivery::refused;
  if (listener.backlog == 0) return Delivery::lost;
  const CmWholeStep step(cm.process, id, &listener);
  const std::uint32_t made = make_request_id(tables, id, match);
  if (made == 0) return Delivery::lost;
  CmId& request = tables.ids[made];
  id.peer = refer_to(tables, request);
  id.remote_gid = match.port.gid;
  if (!queue_request(cm.process, listener, request, describe(tables, id, listener))) {
    release_id(tables, made);
    return Delivery::lost;
  }
  --listener.backlog;
  return Delivery::delivered;
}

}  // namespace hbmwire::emulation::nic
