// SPDX-License-Identifier: MIT
#include <infiniband/verbs.h>

#include <set>

#include "emulation/nic/rdma_cm/connection.hpp"
#include "emulation/nic/rdma_cm/messages.hpp"

/// The end of ids and channels, by their owner or because it died.
namespace hbmwire::emulation::nic {
namespace {

/// ib_destroy_cm_id: tells the peer that this end is gone.
void leave_peer(Process& process, CmId& id) {
  CmId* peer = find(tables_of(process), id.peer);
  const CmWholeStep step(process, id, peer);
  const CmState before = id.cm;
  id.cm = CmState::idle;
  if (peer == nullptr) return;
  switch (before) {
    case CmState::req_sent:
      receive_reject(process, *peer, kRejTimeout, nullptr, 0);
      break;
    case CmState::req_received:
    case CmState::rep_sent:
    case CmState::rep_received:
      receive_reject(process, *peer, kRejConsumer, nullptr, 0);
      break;
    case CmState::established:
      receive_disconnect_request(process, *peer);
      break;
    case CmState::dreq_received:
      receive_disconnect_reply(process, *peer);
      break;
    case CmState::sidr_req_received:
      receive_datagram_reply(process, *peer, id, kSidrReject, nullptr, 0);
      break;
    default:
      break;
  }
}

}  // namespace

std::uint32_t destroy_id(Process& process, std::uint32_t index) {
  CmTables& tables = tables_of(process);
  CmId& id = tables.ids[index];
  set_listening(tables, index, false);
  leave_peer(process, id);
  // Requests whose event was not read end with their listener.
  while (const std::uint32_t event = take_event_of(tables, id.channel, index)) {
    const CmReference request = tables.events[event].request;
    release_event(tables, event);
    if (find(tables, request) != nullptr) destroy_id(process, request.index);
  }
  for (CmMulticast& multicast : in_use(tables.multicasts, tables.multicast_use)) {
    if (multicast.claimed == 0 || multicast.id.index != index) continue;
    multicast.claimed = 0;
    tables.multicast_use.release(index_in(tables.multicasts, multicast));
  }
  const std::uint32_t reported = id.events_reported;
  release_id(tables, index);
  return reported;
}

void destroy_channel(Process& process, std::uint32_t channel) {
  CmTables& tables = tables_of(process);
  CmChannel& record = tables.channels[channel];
  for (const CmKey& key : in_use(tables.keys, tables.id_use)) {
    if (record.ids == 0) break;
    // A request whose event was not read ends with its listener. If the listener has moved to
    // another channel, the request ends here.
    const std::uint32_t i = index_in(tables.keys, key);
    if (key.claimed != 0 && tables.ids[i].channel == channel) destroy_id(process, i);
  }
  while (const std::uint32_t event = record.first_event) {
    record.first_event = tables.events[event].next;
    release_event(tables, event);
  }
  const std::uint32_t owner = record.owner;
  const std::uint64_t fifo = record.fifo;
  record = CmChannel{};
  tables.channel_use.release(channel);
  if (owner == process.slot()) process.fifos().remove(owner, fifo);
}

bool reap_connections(Process& process, std::uint32_t slot) {
  CmTables& tables = tables_of(process);
  const CmLock lock(process);
  if (!lock.held()) return false;
  // Ends all ids first: that takes one walk instead of one for each channel.
  for (const CmKey& key : in_use(tables.keys, tables.id_use)) {
    if (key.claimed != 0 && key.owner == slot) destroy_id(process, index_in(tables.keys, key));
  }
  for (const CmChannel& channel : in_use(tables.channels, tables.channel_use)) {
    if (channel.claimed != 0 && channel.owner == slot)
      destroy_channel(process, index_in(tables.channels, channel));
  }
  return true;
}

bool reap_the_dead(Process& process) {
  const CmTables& tables = tables_of(process);
  std::set<std::uint32_t> others;
  {
    const CmLock lock(process);
    if (!lock.held()) return false;
    for (const CmChannel& channel : in_use(tables.channels, tables.channel_use)) {
      if (channel.claimed != 0) others.insert(channel.owner);
    }
  }
  // Asks the kernel again whether each of these processes is alive: a program that is restarted at
  // once needs the port of its predecessor.
  bool any = false;
  for (const std::uint32_t slot : others) any = process.reap(slot) || any;
  return any;
}

}  // namespace hbmwire::emulation::nic
