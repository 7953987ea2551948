// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/event_queue.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>

#include "emulation/common/fault_step.hpp"

namespace hbmwire::emulation::nic {
namespace {

void write_token(Process& process, const CmChannel& channel) {
  const std::byte token{1};
  // A full FIFO is readable already, and settle_fifo() keeps it readable.
  process.fifos().write(channel.owner, channel.fifo, {&token, 1});
}

void append(CmTables& tables, CmChannel& channel, std::uint32_t event) {
  tables.events[event].next = 0;
  if (channel.first_event == 0) {
    channel.first_event = event;
  } else {
    tables.events[channel.last_event].next = event;
  }
  channel.last_event = event;
  ++channel.events;
}

/// Queues an event in the channel of `owner`. Returns false if the table of events is full.
bool queue(Process& process, CmId& owner, const rdma_ucm_event_resp& body, std::uint32_t multicast,
           const CmReference& request) {
  CmTables& tables = tables_of(process);
  const std::uint32_t index = tables.event_use.claim();
  if (index == 0) return false;
  CmEvent& event = tables.events[index];
  event.claimed = 1;
  event.id = index_of(tables, owner);
  event.multicast = multicast;
  event.request = request;
  event.body = body;
  CmChannel& channel = tables.channels[owner.channel];
  const bool in_step = tables.step.under_way != 0;
  if (in_step) tables.step.event = index;
  fault_step("cm_telling");
  append(tables, channel, index);
  fault_step("cm_telling");
  if (!in_step) write_token(process, channel);
  return true;
}

/// Removes the first event that `wanted` returns true for, by a single store.
template <typename Wanted>
std::uint32_t take_first(CmTables& tables, CmChannel& channel, Wanted wanted) {
  std::uint32_t before = 0;
  for (std::uint32_t at = channel.first_event; at != 0; before = at, at = tables.events[at].next) {
    if (!wanted(tables.events[at])) continue;
    (before == 0 ? channel.first_event : tables.events[before].next) = tables.events[at].next;
    if (channel.last_event == at) channel.last_event = before;
    --channel.events;
    return at;
  }
  return 0;
}

}  // namespace

rdma_ucm_event_resp make_event(const CmTables& tables, const CmId& id, CmEventType type,
                               int status) {
  rdma_ucm_event_resp body{};
  body.uid = id.uid;
  body.id = index_of(tables, id);
  body.event = static_cast<std::uint32_t>(type);
  body.status = static_cast<std::uint32_t>(status);
  return body;
}

void queue_event(Process& process, CmId& id, const rdma_ucm_event_resp& body) {
  if (id.uid == 0 || id.known == 0) return;
  queue(process, id, body, 0, {});
}

void queue_multicast_event(Process& process, CmId& id, std::uint32_t multicast,
                           const rdma_ucm_event_resp& body) {
  queue(process, id, body, multicast, {});
}

bool queue_request(Process& process, CmId& listener, CmId& request,
                   const rdma_ucm_event_resp& body) {
  return queue(process, listener, body, 0, refer_to(tables_of(process), request));
}

void announce(Process& process, std::uint32_t event) {
  const CmTables& tables = tables_of(process);
  write_token(process, tables.channels[tables.ids[tables.events[event].id].channel]);
}

std::uint32_t take_event(CmTables& tables, std::uint32_t channel) {
  const std::uint32_t index =
      take_first(tables, tables.channels[channel], [](const CmEvent&) { return true; });
  if (index == 0) return 0;
  const CmEvent& event = tables.events[index];
  ++tables.ids[event.id].events_reported;
  if (event.multicast != 0) ++tables.multicasts[event.multicast].events_reported;
  return index;
}

void release_event(CmTables& tables, std::uint32_t event) {
  tables.events[event].claimed = 0;
  tables.event_use.release(event);
}

void drop_multicast_events(CmTables& tables, std::uint32_t channel, std::uint32_t multicast) {
  const auto wanted = [&](const CmEvent& event) { return event.multicast == multicast; };
  while (const std::uint32_t index = take_first(tables, tables.channels[channel], wanted)) {
    release_event(tables, index);
  }
}

std::uint32_t take_event_of(CmTables& tables, std::uint32_t channel, std::uint32_t id) {
  return take_first(tables, tables.channels[channel],
                    [&](const CmEvent& event) { return event.id == id; });
}

void move_events(Process& process, std::uint32_t id, std::uint32_t from, std::uint32_t to) {
  CmTables& tables = tables_of(process);
  while (const std::uint32_t event = take_event_of(tables, from, id)) {
    append(tables, tables.channels[to], event);
    write_token(process, tables.channels[to]);
  }
}

void settle_fifo(Process& process, std::uint32_t channel, int fd) {
  const CmChannel& record = tables_of(process).channels[channel];
  int tokens = 0;
  if (::ioctl(fd, FIONREAD, &tokens) != 0) return;
  if (tokens == 0 && record.events != 0) write_token(process, record);
  if (tokens <= static_cast<int>(record.events)) return;
  // Another thread may take a byte meanwhile, so a blocking read could keep the lock for ever.
  const bool may_block = (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0;
  const int end = may_block ? ::open(process.fifos().path(record.owner, record.fifo).c_str(),
                                     O_RDONLY | O_NONBLOCK | O_CLOEXEC)
                            : fd;
  std::array<std::byte, 256> waste{};
  while (tokens > static_cast<int>(record.events)) {
    const auto excess = static_cast<std::size_t>(tokens - static_cast<int>(record.events));
    const ssize_t got = ::read(end, waste.data(), std::min(excess, waste.size()));
    if (got <= 0) break;
    tokens -= static_cast<int>(got);
  }
  if (end != fd) ::close(end);
}

}  // namespace hbmwire::emulation::nic
