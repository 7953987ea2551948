// SPDX-License-Identifier: MIT
#include "emulation/nic/state/receive_ring.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>

#include "emulation/nic/state/ring_heap.hpp"

namespace hbmwire::emulation::nic {
namespace {

std::uint64_t offset_at(const ReceiveRing& receives, std::uint64_t position) {
  return receives.ring + position % receives.depth * receive_stride(receives.max_sge);
}

ReceiveEntry* entry_at(Process& process, const ReceiveRing& receives, std::uint64_t position) {
  return process.at<ReceiveEntry>(offset_at(receives, position));
}

}  // namespace

bool make_receives(Process& process, ReceiveRing& receives, std::uint32_t depth,
                   std::uint32_t max_sge) {
  receives = {0, 0, 0, depth, max_sge};  // empty, with no ring yet
  if (depth == 0) return true;
  receives.ring = allocate_ring(process, depth * receive_stride(max_sge));
  return receives.ring != 0;
}

bool resize_receives(Process& process, ReceiveRing& receives, std::uint32_t depth) {
  const ReceiveRing old = receives;
  const std::uint64_t stride = receive_stride(old.max_sge);
  const std::uint64_t ring = allocate_ring(process, depth * stride);
  if (ring == 0) return false;
  ReceiveRing larger = old;
  larger.ring = ring;
  larger.depth = depth;
  for (std::uint64_t at = old.head; at != old.tail; ++at)
    std::memcpy(entry_at(process, larger, at), entry_at(process, old, at), stride);
  // The queue is empty until the new ring is in place. If this process dies here, the receives and
  // at most one block are lost.
  receives.tail = old.head;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  receives.ring = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  receives.depth = depth;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  receives.ring = ring;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  receives.tail = old.tail;
  free_ring(process, old.ring, old.depth * stride);
  return true;
}

void free_receives(Process& process, ReceiveRing& receives) {
  free_ring(process, receives.ring, receives.depth * receive_stride(receives.max_sge));
  receives.ring = 0;
}

int append_receive(Process& process, ReceiveRing& receives, const ibv_recv_wr& request) {
  if (request.num_sge < 0 || static_cast<std::uint32_t>(request.num_sge) > receives.max_sge)
    return EINVAL;
  if (receives.full()) return ENOMEM;
  ReceiveEntry* entry = entry_at(process, receives, receives.tail);
  entry->wr_id = request.wr_id;
  entry->num_sge = static_cast<std::uint64_t>(request.num_sge);
  if (request.num_sge != 0) {
    std::memcpy(entry->sge, request.sg_list,
                static_cast<std::size_t>(request.num_sge) * sizeof(ibv_sge));
  }
  // A full barrier: the poster looks for waiting senders only after this store (posted_or_wait).
  std::atomic_ref(receives.tail).exchange(receives.tail + 1);
  return 0;
}

std::uint64_t offset_behind_oldest(const ReceiveRing& receives) {
  return offset_at(receives, receives.head + 1);
}

const ReceiveEntry& oldest_receive(Process& process, const ReceiveRing& receives) {
  return *entry_at(process, receives, receives.head);
}

void copy_oldest(Process& process, const ReceiveRing& receives, ReceiveEntry& entry) {
  const ReceiveEntry& posted = oldest_receive(process, receives);
  entry.wr_id = posted.wr_id;
  entry.num_sge = posted.num_sge;
  std::memcpy(entry.sge, posted.sge, posted.num_sge * sizeof(ibv_sge));
}

}  // namespace hbmwire::emulation::nic
