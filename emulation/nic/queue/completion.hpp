// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>

#include "emulation/common/fault_step.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

enum Arming : std::uint32_t { kNotArmed = 0, kArmedForSolicited = 1, kArmedForAny = 2 };

/// Index of a new CQ of `depth` entries, or 0 with errno.
std::uint32_t claim_cq(Process& process, std::uint32_t depth, std::uint64_t cookie,
                       std::uint64_t channel, std::uint64_t async_channel);

/// Gives a CQ another depth, with the entries that wait in it. 0, or an errno, and it is as it was:
/// EINVAL when they would not fit, ENOMEM when the heap is full, EBUSY when it is not to be had.
int resize_cq_ring(Process& process, std::uint32_t index, std::uint32_t depth);

/// Takes a CQ that no QP uses any more out of service; events may no longer come from it. False: it
/// is not to be had now.
[[nodiscard]] bool stop_cq(Process& process, std::uint32_t index);
void release_cq(Process& process, std::uint32_t index);

/// With CqRecord::mutex inherited: ends what its holder left half done.
void repair(SharedState& shared, CqRecord& cq);

/// Holds CqRecord::mutex, or not (Hold). What a holder that died left half done is ended first.
class [[nodiscard]] CqHold : public FavouredHold {
 public:
  [[gnu::always_inline]] CqHold(Process& process, CqRecord& cq)
      : FavouredHold(cq.mutex, Place::completing) {
    if (inherited()) [[unlikely]]
      repair(process.shared(), cq);
  }
};

inline Cqe& entry_at(const Process& process, const CqRecord& cq, std::uint64_t position) {
  return *process.at<Cqe>(cqe_offset(cq.ring, cq.mask, position));
}

/// Appends an entry and wakes whoever armed the CQ. False: the CQ has just overrun, and overrun()
/// below is due as soon as the caller holds no queue lock. An entry that can't be appended now, as
/// a process was stopped with the CQ's lock, is owed by this process.
[[nodiscard]] bool push(Process& process, std::uint32_t index, const Cqe& entry, bool solicited);

/// What completes of a send.
struct SendCompletion {
  std::uint64_t wr_id;
  std::uint64_t send_index;
  std::uint32_t opcode;
  std::uint32_t byte_len;
  std::uint32_t qpn;
};

/// The entry of one that succeeded. Stored one by one: the compiler would take a string instruction
/// for a whole entry of zeros.
[[gnu::always_inline]] inline void fill(Cqe& entry, const SendCompletion& done) {
  entry.wr_id = done.wr_id;
  entry.status = IBV_WC_SUCCESS;
  entry.opcode = done.opcode;
  entry.vendor_error = 0;
  entry.byte_len = done.byte_len;
  entry.immediate = 0;
  entry.qpn = done.qpn;
  entry.source_qpn = 0;
  entry.flags = 0;
  entry.send_index = done.send_index;
  entry.time_ns = 0;
  entry.service_level = 0;
  entry.source_lid = 0;
  entry.scattered = 0;
}

/// push() of a success that nobody is to be told of, as long as nothing else is to be seen to.
/// False: nothing has happened.
[[gnu::always_inline]] inline bool push_at_once(Process& process, std::uint32_t index,
                                                const SendCompletion& done) {
  if (process.owes()) return false;
  CqRecord& cq = process.shared().cqs[index];
  const CqHold guard(process, cq);
  if (!guard.held()) return false;
  const std::uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  const bool plain = cq.used.load(std::memory_order_relaxed) != 0 &&
                     cq.overrun.load(std::memory_order_relaxed) == 0 &&
                     tail - cq.head_seen < cq.depth && cq.armed == kNotArmed && cq.stamps == 0;
  if (!plain) return false;
  fill(entry_at(process, cq, tail), done);
  fault_step("completing");
  cq.tail.store(tail + 1, std::memory_order_release);  // pairs with the acquire in take()
  return true;
}

/// The same for the completion of a receive, which is consumed with it: the oldest of the QP's own
/// queue, with QpRecord::queue held, or the one it has taken of an SRQ. Nothing happens when there
/// is none: another has flushed it.
[[nodiscard]] bool push_receive(Process& process, std::uint32_t index, QpRecord& qp,
                                const Cqe& entry, bool solicited);

/// Something is going to be pushed: has the place fetched for it.
void prefetch_push(Process& process, std::uint32_t index);

/// A CQ overran: IBV_EVENT_CQ_ERR, and every QP that reports to it goes to ERR with
/// IBV_EVENT_QP_FATAL.
void overrun(Process& process, std::uint32_t index);

/// push() and, where it comes to that, overrun(). No queue lock is held.
void complete(Process& process, std::uint32_t index, const Cqe& entry, bool solicited);

/// The slots of a QP's send queue up to an index, which completions gave back.
struct SendSlots {
  std::uint32_t qpn = 0;  // 0: none
  std::uint64_t index = 0;
};

inline void release(const Process& process, const SendSlots& slots) {
  if (slots.qpn == 0) return;
  QpRecord& qp = process.shared().qps[qp_index(slots.qpn)];
  // An entry whose QP could not be purged in time may be another's by its index.
  if (qp.qpn.load(std::memory_order_relaxed) == slots.qpn)
    qp.sends_released.store(slots.index, std::memory_order_release);
}

/// Gives the oldest entries, at most `count`, to `use`, and frees the send slots that they stand
/// for; how many. CqRecord::reading is held, and CqRecord::mutex where CqRecord::ignores_overrun
/// says so.
template <typename Use>
int take(const Process& process, CqRecord& cq, int count, Use use) {
  const std::uint64_t head = cq.head.load(std::memory_order_relaxed);
  const std::uint64_t there = cq.tail.load(std::memory_order_acquire) - head;
  const int taken =
      there < static_cast<std::uint64_t>(std::max(count, 0)) ? static_cast<int>(there) : count;
  SendSlots released;
  for (int place = 0; place < taken; ++place) {
    const Cqe& entry = entry_at(process, cq, head + static_cast<unsigned>(place));
    use(entry, place);
    if (entry.send_index == 0) continue;
    if (entry.qpn != released.qpn) release(process, released);
    released = {entry.qpn, entry.send_index};
  }
  release(process, released);
  // Pairs with the acquire in append().
  if (taken > 0) cq.head.store(head + static_cast<unsigned>(taken), std::memory_order_release);
  return taken;
}

void arm(Process& process, std::uint32_t index, Arming arming);

/// Removes what a QP left in a CQ: its number may come again.
void purge(Process& process, std::uint32_t index, std::uint32_t qpn);

}  // namespace hbmwire::emulation::nic
