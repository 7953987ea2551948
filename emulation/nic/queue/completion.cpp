// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/completion.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "emulation/common/fault_step.hpp"
#include "emulation/nic/queue/events.hpp"
#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/state/allocation.hpp"
#include "emulation/nic/state/prefetch.hpp"
#include "emulation/nic/state/receive_ring.hpp"
#include "emulation/nic/state/ring_heap.hpp"

namespace hbmwire::emulation::nic {
namespace {

void put(CqPlace& place, const Cqe& entry, std::uint64_t position) {
  place.entry = entry;
  publish(place, position);
}

/// Makes a ring of places without entries. Returns 0 if the heap is full.
std::uint64_t allocate_entries(Process& process, std::uint32_t depth) {
  return allocate_ring(process, cq_ring_bytes(depth), Holds::zeros);
}

/// The place of an entry that is in the CQ. Both locks are held.
CqPlace& entry_place(Process& process, CqRecord& cq, std::uint64_t position) {
  return holds(cq.front, position) ? cq.front : place_at(process, cq.in, position);
}

/// Moves the entries to another ring. Both locks are held. If this process dies between the stores
/// of ring and mask, peers may complete into the ring until it is reaped; they stay within the
/// larger of the two blocks.
bool move_to_ring(Process& process, CqRecord& cq, std::uint64_t ring, std::uint32_t depth) {
  const std::uint64_t head = cq.head.load(std::memory_order_relaxed);
  const std::uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  if (tail - head > depth) return false;
  for (std::uint64_t at = head; at != tail; ++at) {
    put(*process.at<CqPlace>(cqe_offset(ring, cq_ring_mask(depth), at)),
        entry_place(process, cq, at).entry, at);
  }
  if (depth < cq.depth) {
    cq.depth = depth;
    cq.in.mask = cq_ring_mask(depth);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    cq.in.ring = ring;
  } else {
    cq.in.ring = ring;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    cq.depth = depth;
    cq.in.mask = cq_ring_mask(depth);
  }
  cq.room_until = head + depth;
  cq.out.ring = ring;
  cq.out.mask = cq_ring_mask(depth);
  return true;
}

/// Disarms the CQ and raises the event for the entries up to `tail`.
void tell(Process& process, CqRecord& cq, std::uint32_t owner, std::uint64_t tail) {
  cq.in.care &= ~kArmed;
  cq.told_tail.store(tail, std::memory_order_release);  // pairs with the acquire in ibv_poll_cq
  raise_completion(process, owner, cq.completions);
}

bool has_own_queue(const QpRecord& qp) { return qp.srq == 0 && qp.type != IBV_QPT_XRC_RECV; }

/// Whether the receive to complete still exists. If not, it was flushed.
bool is_there(const QpRecord& qp) {
  return has_own_queue(qp) ? !qp.receives.empty() : qp.taken.valid.load() != 0;
}

std::uint64_t position_of_receive(const QpRecord& qp) {
  return has_own_queue(qp) ? qp.receives.head : qp.taken.position;
}

void consume_receive(QpRecord& qp) {
  if (has_own_queue(qp)) {
    remove_oldest(qp);
  } else {
    qp.taken.valid.store(0);
  }
}

/// Drops the oldest entry of a CQ whose newest entries replace the oldest. CqRecord::mutex is held.
bool lose_oldest(Process& process, CqRecord& cq) {
  return (cq.in.care & kReplaces) != 0 && take(process, cq, 1, [](const Cqe&, int) {}) == 1;
}

enum class Appended : std::uint8_t { yes, overran, gone };

/// Appends an entry. `qp` has the receive that completes, or is null. CqRecord::mutex is held.
Appended append(Process& process, CqRecord& cq, QpRecord* qp, const Cqe& entry, bool solicited) {
  if (cq.used.load(std::memory_order_relaxed) == 0 || (qp != nullptr && !is_there(*qp)))
    return Appended::gone;
  if ((cq.in.care & kOverran) != 0) {
    // If the receive stayed, a caller that flushes receives one by one would never finish.
    if (qp != nullptr) consume_receive(*qp);
    return Appended::gone;
  }
  const std::uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  // `head` is in the reader's cache, so it is loaded only if the ring may be full.
  if (tail >= cq.room_until) cq.room_until = cq.head.load(std::memory_order_acquire) + cq.depth;
  if (tail >= cq.room_until) {
    if (!lose_oldest(process, cq)) {
      cq.in.care |= kOverran;
      if (qp != nullptr) consume_receive(*qp);
      return Appended::overran;
    }
    ++cq.room_until;
  }
  // A peer always uses the ring: to see whether the CQ is empty, it would have to load `head` from
  // the reader's cache.
  CqPlace& place = cq.owner.load(std::memory_order_relaxed) == process.slot()
                       ? next_place(process, cq, tail)
                       : place_at(process, cq.in, tail);
  place.entry = entry;
  if ((cq.in.care & kStamps) != 0) place.entry.time_ns = now_ns();
  const bool counts_as_solicited = solicited || entry.status != IBV_WC_SUCCESS;
  if (counts_as_solicited) cq.solicited_tail = tail + 1;
  if (qp != nullptr) {
    cq.completing.position = position_of_receive(*qp);
    cq.completing.tail = tail;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    cq.completing.qp = static_cast<std::uint32_t>(qp - process.shared().qps);
  }
  // The event comes before the entry. If this process is killed in between, the owner has been
  // woken and does not sleep beside the entry. An arming for any entry, the larger number, also
  // covers solicited ones.
  if ((cq.in.care & kArmed) >= (counts_as_solicited ? kArmedForSolicited : kArmedForAny))
    tell(process, cq, cq.owner.load(std::memory_order_relaxed), tail + 1);
  fault_step("completing");
  publish(place, tail);
  fault_step("published");
  cq.tail.store(tail + 1, std::memory_order_relaxed);
  fault_step("completed");
  if (qp != nullptr) {
    consume_receive(*qp);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    cq.completing.qp = 0;
  }
  return Appended::yes;
}

/// A completion that was put off. The CQ or the QP may be gone when its turn comes.
Owed::Task owed_entry(Process& process, std::uint32_t index, const Cqe& entry, bool solicited) {
  const std::uint64_t serial = process.shared().cqs[index].serial;
  return [&process, index, entry, solicited, serial] {
    SharedState& shared = process.shared();
    CqRecord& cq = shared.cqs[index];
    Appended appended = Appended::gone;
    {
      const CqHold guard(process, cq);
      if (!guard.held()) return false;
      const bool meant = cq.serial == serial && shared.qps[qp_index(entry.qpn)].qpn == entry.qpn;
      if (meant) appended = append(process, cq, nullptr, entry, solicited);
    }
    if (appended == Appended::overran) overrun(process, index);
    return true;
  };
}

/// As append(), but puts the entry off if a stopped process holds the CQ's lock, or if earlier work
/// for the CQ was put off. Returns false if the CQ overran.
bool push_or_owe(Process& process, std::uint32_t index, QpRecord* qp, const Cqe& entry,
                 bool solicited) {
  CqRecord& cq = process.shared().cqs[index];
  if (!process.owes() ||
      !process.owe_behind(cq.serial, owed_entry(process, index, entry, solicited))) {
    const CqHold guard(process, cq);
    if (guard.held()) return append(process, cq, qp, entry, solicited) != Appended::overran;
    process.owe(owed_entry(process, index, entry, solicited), cq.serial);
  }
  // The receive is consumed now, because the entry that was put off will not consume it.
  if (qp != nullptr && is_there(*qp)) consume_receive(*qp);
  return true;
}

}  // namespace

void repair(Process& process, CqRecord& cq) {
  std::uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  // A writer completes its entry before it moves the tail. If the dead one did not get to the
  // second, the entry at the tail is complete, and the tail is moved here.
  const bool ahead = holds(cq.front, tail) || holds(place_at(process, cq.in, tail), tail);
  if (cq.used.load() != 0 && ahead) cq.tail.store(++tail);
  if (cq.completing.qp != 0 && tail > cq.completing.tail) {
    QpRecord& qp = process.shared().qps[cq.completing.qp];
    if (is_there(qp) && position_of_receive(qp) == cq.completing.position) consume_receive(qp);
  }
  cq.completing.qp = 0;
  // The dead holder may have raised the event for an entry that it did not add.
  cq.told_tail.store(std::min(cq.told_tail.load(), tail));
}

std::uint32_t claim_cq(Process& process, const CqRequest& request) {
  SharedState& shared = process.shared();
  const Allocation guard(process);
  if (!guard.held()) {
    errno = EBUSY;
    return 0;
  }
  if (!has_room(process, shared.cqs, shared.uses.cqs, request.room)) {
    errno = ENOMEM;
    return 0;
  }
  const std::uint32_t index = shared.uses.cqs.claim();
  const std::uint64_t ring = index == 0 ? 0 : allocate_entries(process, request.depth);
  if (ring == 0) {
    if (index != 0) shared.uses.cqs.release(index);
    errno = ENOMEM;
    return 0;
  }
  CqRecord& cq = shared.cqs[index];
  cq.owner.store(process.slot());
  fault_step("claimed");
  cq.in.ring = cq.out.ring = ring;
  cq.in.mask = cq.out.mask = cq_ring_mask(request.depth);
  cq.in.care = cq.out.care = kNotArmed;
  cq.front.sequence.store(0);
  cq.depth = request.depth;
  cq.nic = request.room.nic;
  cq.head.store(0);
  cq.tail.store(0);
  cq.room_until = request.depth;
  cq.solicited_tail = 0;
  cq.told_tail.store(0);
  cq.serial = process.new_id();
  cq.completing = {};
  cq.completions = {request.channel, request.cookie, 0, 0, 0};
  cq.async = {request.async_channel, request.cookie, 0, 0, 0};
  cq.used.store(1);
  return index;
}

int resize_cq_ring(Process& process, std::uint32_t index, std::uint32_t depth) {
  SharedState& shared = process.shared();
  CqRecord& cq = shared.cqs[index];
  const Allocation guard(process);
  if (!guard.held()) return EBUSY;
  const std::uint32_t old_depth = cq.depth;
  const std::uint64_t old_ring = cq.in.ring;
  const std::uint64_t ring = allocate_entries(process, depth);
  if (ring == 0) return ENOMEM;
  int error = 0;
  {
    const FavouredHold reading(cq.reading, Place::reading);
    const CqHold queue(process, cq);
    if (!reading.held() || !queue.held()) {
      error = EBUSY;
    } else if (!move_to_ring(process, cq, ring, depth)) {
      error = EINVAL;
    }
  }
  if (error == 0) {
    free_ring(process, old_ring, cq_ring_bytes(old_depth), Holds::zeros);
  } else {
    free_ring(process, ring, cq_ring_bytes(depth), Holds::zeros);
  }
  return error;
}

bool stop_cq(Process& process, std::uint32_t index) {
  CqRecord& cq = process.shared().cqs[index];
  const CqHold guard(process, cq);
  if (!guard.held()) return false;
  cq.in.care &= ~kArmed;
  set_pending(process, cq.owner.load(), cq.completions, 0);
  set_pending(process, cq.owner.load(), cq.async, 0);
  return true;
}

void release_cq(Process& process, std::uint32_t index) {
  release_record(process, [&process, index] {
    CqRecord& cq = process.shared().cqs[index];
    free_ring(process, cq.in.ring, cq_ring_bytes(cq.depth), Holds::zeros);
    fault_step("released");
    cq.in.ring = 0;
    cq.used.store(0);
    process.shared().uses.cqs.release(index);
  });
}

bool push(Process& process, std::uint32_t index, const Cqe& entry, bool solicited) {
  return push_or_owe(process, index, nullptr, entry, solicited);
}

bool push_receive(Process& process, std::uint32_t index, QpRecord& qp, const Cqe& entry,
                  bool solicited) {
  return push_or_owe(process, index, &qp, entry, solicited);
}

#ifndef __SANITIZE_THREAD__
/// Reads without the lock. If the ring is replaced meanwhile, the prefetch is useless but harmless.
void prefetch_push(Process& process, std::uint32_t index) {
  const CqRecord& cq = process.shared().cqs[index];
  if (cq.used.load(std::memory_order_relaxed) == 0) return;
  prefetch_to_write(&place_at(process, cq.in, cq.tail.load(std::memory_order_relaxed)));
  if ((cq.in.care & kArmed) != 0) prefetch_to_write(&cq.completions);
}

void prefetch_poll(Process& process, std::uint32_t index) {
  CqRecord& cq = process.shared().cqs[index];
  prefetch_to_write(&cq.mutex);
  prefetch_to_write(&cq.reading);
  prefetch_to_read(&cq.completions);
  prefetch_to_read(&place_at(process, cq.out, cq.head.load(std::memory_order_relaxed)));
}
#else
void prefetch_push(Process&, std::uint32_t) {}

void prefetch_poll(Process&, std::uint32_t) {}
#endif

void overrun(Process& process, std::uint32_t index) {
  SharedState& shared = process.shared();
  CqRecord& cq = shared.cqs[index];
  const std::uint32_t owner = cq.owner.load();
  {
    const CqHold guard(process, cq);
    if (guard.held()) raise_async(process, owner, cq.async, IBV_EVENT_CQ_ERR);
  }
  for (QpRecord& qp : in_use(shared.qps, shared.uses.qps)) {
    const std::uint32_t qpn = qp.qpn.load();
    if (qpn == 0 || qp.owner.load() != owner || (qp.send_cq != index && qp.recv_cq != index))
      continue;
    enter_error(process, qp, qpn, IBV_EVENT_QP_FATAL);
  }
}

void complete(Process& process, std::uint32_t index, const Cqe& entry, bool solicited) {
  if (!push(process, index, entry, solicited)) overrun(process, index);
}

namespace {

bool arm_now(Process& process, CqRecord& cq, CqCare armed) {
  const CqHold guard(process, cq);
  if (!guard.held()) return false;
  // An arming for any entry stays, even if this one is for solicited entries only.
  cq.in.care = (cq.in.care & ~kArmed) | std::max(cq.in.care & kArmed, std::uint32_t{armed});
  // As on an HCA, arming raises the event for an entry that came before, if no event was raised for
  // it yet. Programs that poll, arm and sleep without polling again (UCX) would otherwise sleep for
  // ever. An entry that an event was raised for does not count, because perftest expects a new
  // entry for each event.
  const std::uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  const std::uint64_t newest = (cq.in.care & kArmed) == kArmedForAny ? tail : cq.solicited_tail;
  if (newest > std::max(cq.told_tail.load(), cq.head.load(std::memory_order_relaxed)))
    tell(process, cq, process.slot(), tail);
  retry_completion(process, process.slot(), cq.completions);
  return true;
}

bool purge_now(Process& process, CqRecord& cq, std::uint32_t qpn) {
  const FavouredHold reading(cq.reading, Place::reading);
  if (!reading.held()) return false;
  const CqHold guard(process, cq);
  if (!guard.held()) return false;
  const std::uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  // The entries move, so the position of the newest solicited entry is unknown from now on.
  if (cq.solicited_tail > cq.head.load(std::memory_order_relaxed)) cq.solicited_tail = tail;
  std::uint64_t kept = tail;
  // Goes from the newest entry to the oldest, so that only `head` moves.
  for (std::uint64_t at = tail, head = cq.head.load(std::memory_order_relaxed); at != head; --at) {
    const Cqe& entry = entry_place(process, cq, at - 1).entry;
    if (entry.qpn == qpn) continue;
    if (kept != at) put(place_at(process, cq.in, kept - 1), entry, kept - 1);
    --kept;
  }
  cq.head.store(kept, std::memory_order_relaxed);
  return true;
}

/// Calls `act` for a CQ now; or later, if other work for the CQ is waiting or `act` fails.
template <typename Act>
void do_or_owe(Process& process, std::uint32_t index, Act act) {
  CqRecord& cq = process.shared().cqs[index];
  const std::uint64_t serial = cq.serial;
  const auto task = [&cq, serial, act] { return cq.serial != serial || act(cq); };
  if (!(process.owes() && process.owe_behind(serial, task)) && !act(cq)) process.owe(task, serial);
}

}  // namespace

void arm(Process& process, std::uint32_t index, CqCare armed) {
  do_or_owe(process, index,
            [&process, armed](CqRecord& cq) { return arm_now(process, cq, armed); });
}

void purge(Process& process, std::uint32_t index, std::uint32_t qpn) {
  do_or_owe(process, index, [&process, qpn](CqRecord& cq) { return purge_now(process, cq, qpn); });
}

}  // namespace hbmwire::emulation::nic
