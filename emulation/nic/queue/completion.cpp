// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/completion.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "emulation/nic/queue/events.hpp"
#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/state/prefetch.hpp"
#include "emulation/nic/state/ring_heap.hpp"

namespace hbmwire::emulation::nic {
namespace {

Cqe& entry_at(Process& process, const CqRecord& cq, std::uint64_t position) {
  return *process.at<Cqe>(cq.ring + position % cq.depth * kCqeStride);
}

/// With CqRecord::mutex held. Should this process die between the two stores, peers that complete
/// into the ring until it is reaped stay within the larger of the two blocks.
bool move_to_ring(Process& process, CqRecord& cq, std::uint64_t ring, std::uint32_t depth) {
  const std::uint64_t head = cq.head.load(std::memory_order_relaxed);
  const std::uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  if (tail - head > depth) return false;
  for (std::uint64_t at = head; at != tail; ++at)
    *process.at<Cqe>(ring + at % depth * kCqeStride) = entry_at(process, cq, at);
  if (depth < cq.depth) {
    cq.depth = depth;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    cq.ring = ring;
  } else {
    cq.ring = ring;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    cq.depth = depth;
  }
  return true;
}

void tell(Process& process, CqRecord& cq, std::uint32_t owner) {
  cq.armed = kNotArmed;
  cq.told_tail = cq.tail.load(std::memory_order_relaxed);
  raise_completion(process, owner, cq.completions);
}

}  // namespace

std::uint32_t claim_cq(Process& process, std::uint32_t depth, std::uint64_t cookie,
                       std::uint64_t channel, std::uint64_t async_channel) {
  SharedState& shared = process.shared();
  const std::lock_guard guard(shared.header.allocation);
  std::uint32_t& next = shared.header.next_cq;
  for (std::uint32_t tried = 0; tried < kMaxCqs; ++tried) {
    const std::uint32_t index = next++ % kMaxCqs;
    CqRecord& cq = shared.cqs[index];
    if (index == 0 || cq.used.load() != 0) continue;
    const std::uint64_t ring = allocate_ring(process, depth * kCqeStride);
    if (ring == 0) break;
    if (cq.locks_made == 0) {
      cq.mutex.initialise();
      cq.locks_made = 1;
    }
    cq.owner.store(process.slot());
    cq.overrun.store(0);
    cq.ring = ring;
    cq.depth = depth;
    cq.armed = kNotArmed;
    cq.ignores_overrun = 0;
    cq.stamps = 0;
    cq.head.store(0);
    cq.tail.store(0);
    cq.head_seen = 0;
    cq.solicited_tail = 0;
    cq.told_tail = 0;
    cq.completions = {channel, cookie, 0, 0};
    cq.async = {async_channel, cookie, 0, 0};
    cq.used.store(1);
    return index;
  }
  errno = ENOMEM;
  return 0;
}

int resize_cq_ring(Process& process, std::uint32_t index, std::uint32_t depth) {
  SharedState& shared = process.shared();
  CqRecord& cq = shared.cqs[index];
  const std::lock_guard guard(shared.header.allocation);
  const std::uint32_t old_depth = cq.depth;
  const std::uint64_t old_ring = cq.ring;
  const std::uint64_t ring = allocate_ring(process, depth * kCqeStride);
  if (ring == 0) return ENOMEM;
  bool moved = false;
  {
    const std::lock_guard queue(cq.mutex);
    moved = move_to_ring(process, cq, ring, depth);
  }
  if (moved) {
    free_ring(process, old_ring, old_depth * kCqeStride);
  } else {
    free_ring(process, ring, depth * kCqeStride);
  }
  return moved ? 0 : EINVAL;
}

void stop_cq(Process& process, std::uint32_t index) {
  CqRecord& cq = process.shared().cqs[index];
  const std::lock_guard guard(cq.mutex);
  cq.armed = kNotArmed;
  cq.completions.pending = 0;
  cq.async.pending = 0;
}

void release_cq(Process& process, std::uint32_t index) {
  SharedState& shared = process.shared();
  CqRecord& cq = shared.cqs[index];
  const std::lock_guard guard(shared.header.allocation);
  free_ring(process, cq.ring, cq.depth * kCqeStride);
  cq.ring = 0;
  cq.used.store(0);
}

bool push(Process& process, std::uint32_t index, const Cqe& entry, bool solicited) {
  CqRecord& cq = process.shared().cqs[index];
  const std::lock_guard guard(cq.mutex);
  if (cq.used.load(std::memory_order_relaxed) == 0 ||
      cq.overrun.load(std::memory_order_relaxed) != 0)
    return true;
  const std::uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  // `head` is in the reader's cache: it is asked for when the ring would be full without.
  if (tail - cq.head_seen >= cq.depth) cq.head_seen = cq.head.load(std::memory_order_acquire);
  if (tail - cq.head_seen >= cq.depth) {
    Cqe lost;
    if (cq.ignores_overrun == 0 || !take(process, cq, lost)) {
      cq.overrun.store(1);
      return false;
    }
    ++cq.head_seen;
  }
  Cqe& slot = entry_at(process, cq, tail);
  slot = entry;
  if (cq.stamps != 0) slot.time_ns = now_ns();
  cq.tail.store(tail + 1,
                std::memory_order_release);  // pairs with the acquire in ibv_poll_cq's first look
  const bool counts_as_solicited = solicited || entry.status != IBV_WC_SUCCESS;
  if (counts_as_solicited) cq.solicited_tail = tail + 1;
  if (cq.armed == kArmedForAny || (cq.armed == kArmedForSolicited && counts_as_solicited))
    tell(process, cq, cq.owner.load(std::memory_order_relaxed));
  return true;
}

#ifndef __SANITIZE_THREAD__
/// Without the lock: where there is another ring meanwhile, nothing was gained.
void prefetch_push(Process& process, std::uint32_t index) {
  const CqRecord& cq = process.shared().cqs[index];
  if (cq.used.load(std::memory_order_relaxed) != 0)
    prefetch_to_write(&entry_at(process, cq, cq.tail.load(std::memory_order_relaxed)));
}
#else
void prefetch_push(Process&, std::uint32_t) {}
#endif

void overrun(Process& process, std::uint32_t index) {
  SharedState& shared = process.shared();
  CqRecord& cq = shared.cqs[index];
  const std::uint32_t owner = cq.owner.load();
  {
    const std::lock_guard guard(cq.mutex);
    raise_async(process, owner, cq.async, IBV_EVENT_CQ_ERR);
  }
  for (QpRecord& qp : touched(shared.qps, shared.header.next_qp)) {
    const std::uint32_t qpn = qp.qpn.load();
    if (qpn == 0 || qp.owner.load() != owner || (qp.send_cq != index && qp.recv_cq != index))
      continue;
    enter_error(process, qp, qpn, IBV_EVENT_QP_FATAL);
  }
}

void complete(Process& process, std::uint32_t index, const Cqe& entry, bool solicited) {
  if (!push(process, index, entry, solicited)) overrun(process, index);
}

bool take(Process& process, CqRecord& cq, Cqe& entry) {
  const std::uint64_t head = cq.head.load(std::memory_order_relaxed);
  if (head == cq.tail.load(std::memory_order_acquire)) return false;
  entry = entry_at(process, cq, head);
  if (entry.send_index != 0) {
    process.shared().qps[qp_index(entry.qpn)].sends_released.store(entry.send_index,
                                                                   std::memory_order_release);
  }
  cq.head.store(head + 1, std::memory_order_release);  // pairs with the acquire in push()
  return true;
}

void arm(Process& process, std::uint32_t index, Arming arming) {
  CqRecord& cq = process.shared().cqs[index];
  const std::lock_guard guard(cq.mutex);
  if (cq.armed < arming) cq.armed = arming;
  // HCAs raise the event for an entry that came before they were armed, too, if nobody was told of
  // it. Those who poll, arm and sleep without a second look (UCX) would sleep for ever otherwise.
  // An entry that an event was raised for counts no more: perftest takes each event for a new one.
  const std::uint64_t newest =
      cq.armed == kArmedForAny ? cq.tail.load(std::memory_order_relaxed) : cq.solicited_tail;
  if (newest > std::max(cq.told_tail, cq.head.load(std::memory_order_relaxed)))
    tell(process, cq, process.slot());
  retry_completion(process, process.slot(), cq.completions);
}

void purge(Process& process, std::uint32_t index, std::uint32_t qpn) {
  CqRecord& cq = process.shared().cqs[index];
  const std::lock_guard guard(cq.mutex);
  const std::uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  // Entries move: which of them is the newest solicited one is not known any more.
  if (cq.solicited_tail > cq.head.load(std::memory_order_relaxed)) cq.solicited_tail = tail;
  std::uint64_t kept = tail;
  // From the newest to the oldest, so that `head` alone moves.
  for (std::uint64_t at = tail, head = cq.head.load(std::memory_order_relaxed); at != head; --at) {
    const Cqe entry = entry_at(process, cq, at - 1);
    if (entry.qpn == qpn) continue;
    if (kept != at) entry_at(process, cq, kept - 1) = entry;
    --kept;
  }
  cq.head.store(kept, std::memory_order_relaxed);
}

}  // namespace hbmwire::emulation::nic
