// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/rdma_cm/cm_lock.hpp"

/// The events of an event channel. They are queued as records in shared memory. The channel's FIFO,
/// which the application polls, has a byte for each. All functions are called with CmLock held.
namespace hbmwire::emulation::nic {

/// Makes an event of `id` with the members that every event has.
rdma_ucm_event_resp make_event(const CmTables& tables, const CmId& id, CmEventType type,
                               int status = 0);

/// Queues an event of `id`. As in the kernel, events of an id that its owner has not accepted yet
/// are dropped: the owner learns of them when it accepts.
void queue_event(Process& process, CmId& id, const rdma_ucm_event_resp& body);

/// Queues the event `body` for `multicast`.
void queue_multicast_event(Process& process, CmId& id, std::uint32_t multicast,
                           const rdma_ucm_event_resp& body);

/// Queues a request for `listener`. Returns false if there is no room.
bool queue_request(Process& process, CmId& listener, CmId& request,
                   const rdma_ucm_event_resp& body);

/// Writes the FIFO's byte for an event that a CmWholeStep has queued. It is written after the step,
/// so that no byte remains for an event that is undone. A reader that finds a byte without an event
/// waits for the next one.
void announce(Process& process, std::uint32_t event);

/// Removes the channel's first event from its queue and counts it as reported. Returns its index;
/// 0: there is none.
std::uint32_t take_event(CmTables& tables, std::uint32_t channel);
void release_event(CmTables& tables, std::uint32_t event);

/// Drops the events of one multicast group.
void drop_multicast_events(CmTables& tables, std::uint32_t channel, std::uint32_t multicast);

/// Removes the first event of `id` from the channel's queue. Returns its index; 0: there is none.
std::uint32_t take_event_of(CmTables& tables, std::uint32_t channel, std::uint32_t id);

/// Moves the events of `id` to the end of another channel's queue.
void move_events(Process& process, std::uint32_t id, std::uint32_t from, std::uint32_t to);

/// Makes the FIFO have as many bytes as there are events, so that poll() tells the truth.
void settle_fifo(Process& process, std::uint32_t channel, int fd);

}  // namespace hbmwire::emulation::nic
