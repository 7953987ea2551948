// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "emulation/nic/state/async_record.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

/// Writes an asynchronous event into its owner's FIFO. If the FIFO is full, sets a bit in `pending`
/// instead. The lock that guards `source` is held.
void raise_async(Process& process, std::uint32_t owner, EventSource& source, ibv_event_type type);

/// As raise_async(), for a QP: to every handle of the QP. QpRecord::queue is held.
void raise_on_qp(Process& process, QpRecord& qp, ibv_event_type type);

/// Writes a completion event (the CQ's cookie) into its channel. If the channel is full, the event
/// becomes pending.
void raise_completion(Process& process, std::uint32_t owner, EventSource& source);

/// Tries to write pending events again. The lock that guards `source` is held.
void retry_async(Process& process, std::uint32_t owner, EventSource& source);
void retry_completion(Process& process, std::uint32_t owner, EventSource& source);

/// Whether there may be pending events. Needs no lock. A thread that has just read from a full
/// channel does not miss a pending event: its writer set `writing` before and clears it only after
/// noting the event.
inline bool may_be_pending(EventSource& source) {
  return std::atomic_ref(source.writing).load(std::memory_order_acquire) != 0 ||
         std::atomic_ref(source.pending).load(std::memory_order_relaxed) != 0;
}

/// Sets the bits of events of `source` that are pending. The lock that guards `source` is held.
void set_pending(Process& process, std::uint32_t owner, EventSource& source, std::uint32_t pending);

/// Whether this process may have pending events. A quick look: only if it is true does a reader
/// that has made room ask all its objects. A writer that finds a channel full notes the event first
/// and then tries once more, so that no event waits for a second read.
inline bool any_pending(const Process& process) {
  return process.shared().processes[process.slot()].full_sources.load() != 0;
}

/// Whether fewer events were acknowledged than delivered. It does not compare for equality, because
/// an event whose writer was killed may be delivered without being counted.
constexpr bool is_behind(std::uint32_t acknowledged, std::uint32_t delivered) {
  return static_cast<std::int32_t>(delivered - acknowledged) > 0;
}

/// Removes an object's undelivered events from its channel. Returns how many were delivered during
/// its life: the thread that destroys it must wait until so many are acknowledged.
std::uint32_t withdraw_async(Process& process, EventSource& source);
std::uint32_t withdraw_completions(Process& process, EventSource& source);

}  // namespace hbmwire::emulation::nic
