// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "emulation/nic/state/process.hpp"

/// What a queue pair's receive queue and a shared one have in common. The lock of the record that
/// the ring lies in is held; for making, resizing and freeing Header::allocation too.
namespace hbmwire::emulation::nic {

/// False when the heap is full.
bool make_receives(Process& process, ReceiveRing& receives, std::uint32_t depth,
                   std::uint32_t max_sge);

/// Moves what is posted into a ring of another depth, in which it has room. False when the heap is
/// full, and then nothing has changed.
bool resize_receives(Process& process, ReceiveRing& receives, std::uint32_t depth);

void free_receives(Process& process, ReceiveRing& receives);

/// Puts a receive behind the last one: 0, EINVAL for too many elements, ENOMEM for a full ring.
/// What is looked at next is looked at when others can see the receive.
int append_receive(Process& process, ReceiveRing& receives, const ibv_recv_wr& request);

/// Where in the file the receive behind the oldest one is, or will be.
std::uint64_t offset_behind_oldest(const ReceiveRing& receives);

/// The oldest receive; there is one.
const ReceiveEntry& oldest_receive(Process& process, const ReceiveRing& receives);

/// Whether a QP has a receive in its own queue. With QpRecord::queue held.
[[gnu::always_inline]] inline bool has_receive(QpRecord& qp) {
  if (!qp.receives.empty()) return true;
  // Pairs with append_receive(): what is before the tail is there.
  qp.receives.tail = std::atomic_ref(qp.posted.tail).load();
  return !qp.receives.empty();
}

/// The oldest one of a QP's own queue is done with. With QpRecord::queue held.
inline void remove_oldest(QpRecord& qp) {
  // Pairs with the acquire in make_room(): what was in its place has been read.
  std::atomic_ref(qp.receives.head).store(qp.receives.head + 1, std::memory_order_release);
}

/// Looks how far receives have been consumed, when there seems to be no room. True: there is some.
/// With QpRecord::posting held.
inline bool make_room(QpRecord& qp) {
  if (!qp.posted.full()) return true;
  qp.posted.head = std::atomic_ref(qp.receives.head).load(std::memory_order_acquire);
  return !qp.posted.full();
}

/// Copies it out.
void copy_oldest(Process& process, const ReceiveRing& receives, ReceiveEntry& entry);

}  // namespace hbmwire::emulation::nic
