// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "emulation/nic/state/async_record.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

/// Puts an asynchronous event into its owner's FIFO. The lock that guards `source` is held. A full
/// FIFO leaves a bit in `pending`.
void raise_async(Process& process, std::uint32_t owner, EventSource& source, ibv_event_type type);

/// The same for a QP, to every handle that it has. QpRecord::queue is held.
void raise_on_qp(Process& process, QpRecord& qp, ibv_event_type type);

/// Puts a completion event (the CQ's cookie) into its channel; false when it did not fit and is
/// pending.
void raise_completion(Process& process, std::uint32_t owner, EventSource& source);

/// Tries again what did not fit. The lock that guards `source` is held.
void retry_async(Process& process, std::uint32_t owner, EventSource& source);
void retry_completion(Process& process, std::uint32_t owner, EventSource& source);

/// Whether there may be something to try again, without the lock. Who has just read from a channel
/// that was full sees what did not fit: its writer was writing before, and is until it is noted.
inline bool may_be_pending(EventSource& source) {
  return std::atomic_ref(source.writing).load(std::memory_order_acquire) != 0 ||
         std::atomic_ref(source.pending).load(std::memory_order_relaxed) != 0;
}

/// Notes which events of a source of `owner` did not fit. The lock that guards `source` is held.
void set_pending(Process& process, std::uint32_t owner, EventSource& source, std::uint32_t pending);

/// Whether an event of this process did not fit, at a glance: a reader that has made room asks all
/// its objects only then. A writer that finds a channel full notes it first and then tries once
/// more, so that no event waits for another read.
inline bool any_pending(const Process& process) {
  return process.shared().processes[process.slot()].full_sources.load() != 0;
}

/// Whether fewer events were acknowledged than were delivered. Not whether the numbers differ: the
/// event of a process that was killed over it is not counted.
constexpr bool is_behind(std::uint32_t acknowledged, std::uint32_t delivered) {
  return static_cast<std::int32_t>(delivered - acknowledged) > 0;
}

/// Takes an object's undelivered events out of its channel; how many were delivered in its life,
/// which is how many its destroyer must see acknowledged.
std::uint32_t withdraw_async(Process& process, EventSource& source);
std::uint32_t withdraw_completions(Process& process, EventSource& source);

}  // namespace hbmwire::emulation::nic
