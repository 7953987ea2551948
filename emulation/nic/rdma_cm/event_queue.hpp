// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/rdma_cm/cm_lock.hpp"

/// Events of an event channel: a queue of records in shared memory, and in the channel's FIFO,
/// which is what the application polls, a byte for each. All is called with CmLock held.
namespace hbmwire::emulation::nic {

/// An event of `id`, empty but for what every event says.
rdma_ucm_event_resp make_event(const CmTables& tables, const CmId& id, CmEventType type,
                               int status = 0);

/// Queues an event of `id`. Events of an id that its owner has not accepted yet are dropped, as the
/// kernel does: the owner will learn it from its accept.
void queue_event(Process& process, CmId& id, const rdma_ucm_event_resp& body);

/// Queues what `body` says for `multicast`.
void queue_multicast_event(Process& process, CmId& id, std::uint32_t multicast,
                           const rdma_ucm_event_resp& body);

/// Queues a request for `listener`; false when there is no room.
bool queue_request(Process& process, CmId& listener, CmId& request,
                   const rdma_ucm_event_resp& body);

/// Writes the byte of an event that a CmWholeStep queued: after the step, so that no byte is there
/// whose event is undone. A reader that finds one waits for the next event.
void announce(Process& process, std::uint32_t event);

/// Takes the channel's first event off its queue and counts it as reported; 0 when there is none.
std::uint32_t take_event(CmTables& tables, std::uint32_t channel);
void release_event(CmTables& tables, std::uint32_t event);

/// Drops the events of one multicast.
void drop_multicast_events(CmTables& tables, std::uint32_t channel, std::uint32_t multicast);

/// Takes the first event that is one of `id` off the channel's queue; 0 when there is none.
std::uint32_t take_event_of(CmTables& tables, std::uint32_t channel, std::uint32_t id);

/// Moves the events of `id` to another channel's end.
void move_events(Process& process, std::uint32_t id, std::uint32_t from, std::uint32_t to);

/// Makes the bytes in the FIFO as many as there are events, so that a poll says the truth.
void settle_fifo(Process& process, std::uint32_t channel, int fd);

}  // namespace hbmwire::emulation::nic
