// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "emulation/nic/state/process.hpp"

/// Receive rings, for the receive queue of a queue pair and for shared receive queues. The caller
/// holds the lock of the record that has the ring; to make, resize or free a ring also
/// Header::allocation.
namespace hbmwire::emulation::nic {

/// Returns false if the heap is full.
bool make_receives(Process& process, ReceiveRing& receives, std::uint32_t depth,
                   std::uint32_t max_sge);

/// Moves the posted receives into a ring of another depth, which has room for them. Returns false
/// if the heap is full; nothing has changed then.
bool resize_receives(Process& process, ReceiveRing& receives, std::uint32_t depth);

void free_receives(Process& process, ReceiveRing& receives);

/// Appends a receive. Returns 0, EINVAL for too many elements, or ENOMEM for a full ring. The final
/// store is sequentially consistent: loads after the call come after others can see the receive.
int append_receive(Process& process, ReceiveRing& receives, const ibv_recv_wr& request);

/// The offset in the file of the receive after the oldest one, which need not be posted yet.
std::uint64_t offset_behind_oldest(const ReceiveRing& receives);

/// The oldest receive. The ring must not be empty.
const ReceiveEntry& oldest_receive(Process& process, const ReceiveRing& receives);

/// Whether a QP has a receive in its own queue. QpRecord::queue is held.
[[gnu::always_inline]] inline bool has_receive(QpRecord& qp) {
  if (!qp.receives.empty()) return true;
  // Pairs with append_receive(): the entries before the tail are complete.
  qp.receives.tail = std::atomic_ref(qp.posted.tail).load();
  return !qp.receives.empty();
}

/// Removes the oldest receive from a QP's own queue. QpRecord::queue is held.
inline void remove_oldest(QpRecord& qp) {
  // Pairs with the acquire in make_room(): the entry has been read before its place is reused.
  std::atomic_ref(qp.receives.head).store(qp.receives.head + 1, std::memory_order_release);
}

/// If the queue looks full, reads how many receives have been consumed. Returns whether there is
/// room. QpRecord::posting is held.
inline bool make_room(QpRecord& qp) {
  if (!qp.posted.full()) return true;
  qp.posted.head = std::atomic_ref(qp.receives.head).load(std::memory_order_acquire);
  return !qp.posted.full();
}

/// Copies the oldest receive to `entry`.
void copy_oldest(Process& process, const ReceiveRing& receives, ReceiveEntry& entry);

}  // namespace hbmwire::emulation::nic
