// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/completion.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "emulation/common/fault_step.hpp"
#include "emulation/nic/queue/events.hpp"
#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/state/allocation.hpp"
#include "emulation/nic/state/prefetch.hpp"
#include "emulation/nic/state/receive_ring.hpp"
#include "emulation/nic/state/ring_heap.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// With CqRecord::mutex held. Should this process die between the two stores, peers that complete
/// into the ring until it is reaped stay within the larger of the two blocks.
bool move_to_ring(Process& process, CqRecord& cq, std::uint64_t ring, std::uint32_t depth) {
  const std::uint64_t head = cq.head.load(std::memory_order_relaxed);
  const std::uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  if (tail - head > depth) return false;
  for (std::uint64_t at = head; at != tail; ++at)
    *process.at<Cqe>(cqe_offset(ring, cq_ring_mask(depth), at - cq.origin)) =
        entry_at(process, cq, at);
  if (depth < cq.depth) {
    cq.depth = depth;
    cq.mask = cq_ring_mask(depth);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    cq.ring = ring;
  } else {
    cq.ring = ring;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    cq.depth = depth;
    cq.mask = cq_ring_mask(depth);
  }
  return true;
}

/// Of the entries up to `tail`.
void tell(Process& process, CqRecord& cq, std::uint32_t owner, std::uint64_t tail) {
  cq.care &= ~kArmed;
  cq.told_tail.store(tail, std::memory_order_release);  // pairs with the acquire in ibv_poll_cq
  raise_completion(process, owner, cq.completions);
}

/// There is the receive that completes, or it was flushed.
bool is_there(const QpRecord& qp) {
  return qp.srq == 0 && qp.type != IBV_QPT_XRC_RECV ? !qp.receives.empty()
                                                    : qp.taken.valid.load() != 0;
}

std::uint64_t position_of_receive(const QpRecord& qp) {
  return qp.srq == 0 && qp.type != IBV_QPT_XRC_RECV ? qp.receives.head : qp.taken.position;
}

void consume_receive(QpRecord& qp) {
  if (qp.srq == 0 && qp.type != IBV_QPT_XRC_RECV) {
    remove_oldest(qp);
  } else {
    qp.taken.valid.store(0);
  }
}

enum class Appended : std::uint8_t { yes, overran, gone };

/// With CqRecord::mutex held. `qp`: whose receive it completes, or null.
Appended append(Process& process, CqRecord& cq, QpRecord* qp, const Cqe& entry, bool solicited) {
  if (cq.used.load(std::memory_order_relaxed) == 0 || (qp != nullptr && !is_there(*qp)))
    return Appended::gone;
  if ((cq.care & kOverran) != 0) {
    // Or who flushes the receives one by one would never come to their end.
    if (qp != nullptr) consume_receive(*qp);
    return Appended::gone;
  }
  const std::uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  // `head` is in the reader's cache: it is asked for when the ring would be full without.
  if (tail - cq.head_seen >= cq.depth) cq.head_seen = cq.head.load(std::memory_order_acquire);
  if (tail - cq.head_seen >= cq.depth) {
    const auto lose = [](const Cqe&, int) {};
    if (cq.ignores_overrun == 0 || take(process, cq, 1, lose) == 0) {
      cq.care |= kOverran;
      if (qp != nullptr) consume_receive(*qp);
      return Appended::overran;
    }
    ++cq.head_seen;
  }
  Cqe& slot = entry_at(process, cq, tail);
  slot = entry;
  if ((cq.care & kStamps) != 0) slot.time_ns = now_ns();
  const bool counts_as_solicited = solicited || entry.status != IBV_WC_SUCCESS;
  if (counts_as_solicited) cq.solicited_tail = tail + 1;
  if (qp != nullptr) {
    cq.completing.position = position_of_receive(*qp);
    cq.completing.tail = tail;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    cq.completing.qp = static_cast<std::uint32_t>(qp - process.shared().qps);
  }
  // Before the entry is there: who is killed in between leaves nobody asleep beside it.
  if ((cq.care & kArmed) >= (counts_as_solicited ? kArmedForSolicited : kArmedForAny))
    tell(process, cq, cq.owner.load(std::memory_order_relaxed), tail + 1);
  fault_step("completing");
  cq.tail.store(tail + 1,
                std::memory_order_release);  // pairs with the acquire in ibv_poll_cq's first look
  fault_step("completed");
  if (qp != nullptr) {
    consume_receive(*qp);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    cq.completing.qp = 0;
  }
  return Appended::yes;
}

/// A completion that is owed: what it was for may be gone when its turn comes.
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

bool push_of(Process& process, std::uint32_t index, QpRecord* qp, const Cqe& entry,
             bool solicited) {
  CqRecord& cq = process.shared().cqs[index];
  if (!process.owes() ||
      !process.owe_behind(cq.serial, owed_entry(process, index, entry, solicited))) {
    const CqHold guard(process, cq);
    if (guard.held()) return append(process, cq, qp, entry, solicited) != Appended::overran;
    process.owe(owed_entry(process, index, entry, solicited), cq.serial);
  }
  if (qp != nullptr && is_there(*qp)) consume_receive(*qp);
  return true;
}

}  // namespace

void repair(SharedState& shared, CqRecord& cq) {
  const std::uint64_t tail = cq.tail.load();
  if (cq.completing.qp != 0 && tail > cq.completing.tail) {
    QpRecord& qp = shared.qps[cq.completing.qp];
    if (is_there(qp) && position_of_receive(qp) == cq.completing.position) consume_receive(qp);
  }
  cq.completing.qp = 0;
  cq.told_tail.store(std::min(cq.told_tail.load(), tail));
}

std::uint32_t claim_cq(Process& process, std::uint32_t depth, std::uint64_t cookie,
                       std::uint64_t channel, std::uint64_t async_channel) {
  SharedState& shared = process.shared();
  const Allocation guard(process);
  if (!guard.held()) {
    errno = EBUSY;
    return 0;
  }
  const std::uint32_t index = next_free(shared.cqs, shared.header.next_cq,
                                        [](const CqRecord& cq) { return cq.used.load() == 0; });
  const std::uint64_t ring = index == 0 ? 0 : allocate_ring(process, cq_ring_bytes(depth));
  if (ring == 0) {
    errno = ENOMEM;
    return 0;
  }
  CqRecord& cq = shared.cqs[index];
  cq.owner.store(process.slot());
  fault_step("claimed");
  cq.ring = ring;
  cq.depth = depth;
  cq.mask = cq_ring_mask(depth);
  cq.origin = 0;
  cq.care = kNotArmed;
  cq.ignores_overrun = 0;
  cq.head.store(0);
  cq.tail.store(0);
  cq.head_seen = 0;
  cq.solicited_tail = 0;
  cq.told_tail.store(0);
  cq.serial = process.new_id();
  cq.completing = {};
  cq.completions = {channel, cookie, 0, 0, 0};
  cq.async = {async_channel, cookie, 0, 0, 0};
  cq.used.store(1);
  return index;
}

int resize_cq_ring(Process& process, std::uint32_t index, std::uint32_t depth) {
  SharedState& shared = process.shared();
  CqRecord& cq = shared.cqs[index];
  const Allocation guard(process);
  if (!guard.held()) return EBUSY;
  const std::uint32_t old_depth = cq.depth;
  const std::uint64_t old_ring = cq.ring;
  const std::uint64_t ring = allocate_ring(process, cq_ring_bytes(depth));
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
    free_ring(process, old_ring, cq_ring_bytes(old_depth));
  } else {
    free_ring(process, ring, cq_ring_bytes(depth));
  }
  return error;
}

bool stop_cq(Process& process, std::uint32_t index) {
  CqRecord& cq = process.shared().cqs[index];
  const CqHold guard(process, cq);
  if (!guard.held()) return false;
  cq.care &= ~kArmed;
  set_pending(cq.completions, 0);
  cq.async.pending = 0;
  return true;
}

void release_cq(Process& process, std::uint32_t index) {
  release_record(process, [&process, index] {
    CqRecord& cq = process.shared().cqs[index];
    free_ring(process, cq.ring, cq_ring_bytes(cq.depth));
    fault_step("released");
    cq.ring = 0;
    cq.used.store(0);
  });
}

bool push(Process& process, std::uint32_t index, const Cqe& entry, bool solicited) {
  return push_of(process, index, nullptr, entry, solicited);
}

bool push_receive(Process& process, std::uint32_t index, QpRecord& qp, const Cqe& entry,
                  bool solicited) {
  return push_of(process, index, &qp, entry, solicited);
}

#ifndef __SANITIZE_THREAD__
/// Without the lock: where there is another ring meanwhile, nothing was gained.
void prefetch_push(Process& process, std::uint32_t index) {
  const CqRecord& cq = process.shared().cqs[index];
  prefetch_to_write(&cq.completions);
  if (cq.used.load(std::memory_order_relaxed) != 0)
    prefetch_to_write(&entry_at(process, cq, cq.tail.load(std::memory_order_relaxed)));
}

void prefetch_poll(Process& process, std::uint32_t index) {
  CqRecord& cq = process.shared().cqs[index];
  prefetch_to_write(&cq.mutex);
  prefetch_to_write(&cq.tail);
  prefetch_to_read(&cq.completions);
  prefetch_to_read(&entry_at(process, cq, cq.head.load(std::memory_order_relaxed)));
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

namespace {

bool arm_now(Process& process, CqRecord& cq, CqCare armed) {
  const CqHold guard(process, cq);
  if (!guard.held()) return false;
  cq.care = (cq.care & ~kArmed) | std::max(cq.care & kArmed, std::uint32_t{armed});
  // HCAs raise the event for an entry that came before they were armed, too, if nobody was told of
  // it. Those who poll, arm and sleep without a second look (UCX) would sleep for ever otherwise.
  // An entry that an event was raised for counts no more: perftest takes each event for a new one.
  const std::uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  const std::uint64_t newest = (cq.care & kArmed) == kArmedForAny ? tail : cq.solicited_tail;
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
  return true;
}

/// Does something to a CQ now, or behind what is owed to it.
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
