// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

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
  return *process.at<Cqe>(cqe_offset(cq.ring, cq.mask, position - cq.origin));
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

/// Two words that are stored, or loaded, as one. What fills an entry and what reads it again do so
/// in the same places: a load of what two stores have just brought would wait for the cache.
using WordPair [[gnu::vector_size(16)]] = std::uint64_t;

[[gnu::always_inline]] inline std::uint64_t word(std::uint32_t low, std::uint32_t high) {
  static_assert(std::endian::native == std::endian::little);
  return std::uint64_t{high} << 32U | low;
}

/// The entry of one that succeeded.
[[gnu::always_inline]] inline void fill(Cqe& entry, const SendCompletion& done) {
  static_assert(offsetof(Cqe, status) == 8 && offsetof(Cqe, vendor_error) == 16 &&
                offsetof(Cqe, immediate) == 24 && offsetof(Cqe, source_qpn) == 32 &&
                offsetof(Cqe, send_index) == 40);
  auto* const at = reinterpret_cast<std::byte*>(&entry);
  const auto store = [at](std::size_t offset, WordPair words) {
    std::memcpy(at + offset, &words, sizeof(words));
  };
  store(0, WordPair{done.wr_id, word(IBV_WC_SUCCESS, done.opcode)});
  store(16, WordPair{word(0, done.byte_len), word(0, done.qpn)});
  store(32, WordPair{0, done.send_index});
  store(48, WordPair{0, 0});
  static_assert(sizeof(Cqe) == 64);
}

/// While a CQ that is polled as it fills is empty at every look, its entries are put into the same
/// few lines of the cache again. With CqRecord::mutex held.
[[gnu::always_inline]] inline void keep_to_front(CqRecord& cq, std::uint64_t tail) {
  constexpr std::uint64_t kFew = 8;
  if (((tail - cq.origin) & (kFew - 1)) == 0 &&
      cq.head.load(std::memory_order_acquire) == tail)  // pairs with the release in take()
    cq.origin = tail;
}

/// push() of the success that `done` gives into a CQ of this process that queue pairs of its have,
/// by a thread that the CQ's lock favours (`mark`, `token`), when nobody is to be told and nothing
/// else is to be seen to. False: nothing has happened. The caller has seen that no plan wants to
/// know of steps.
template <typename Done>
[[gnu::always_inline]] inline bool push_at_once(Process& process, CqRecord& cq, ThreadMark* mark,
                                                std::uint64_t token, Done done) {
  if (process.owes() || !cq.mutex.enter(mark, token, Place::completing)) return false;
  const MarkedHold guard(*mark, Place::completing);
  const std::uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  if (tail - cq.head_seen >= cq.depth || cq.care != 0) return false;
  keep_to_front(cq, tail);
  fill(entry_at(process, cq, tail), done());
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

/// Who slept on the CQ is awake, and going to arm it and to poll: has what its peers wrote
/// meanwhile fetched at once.
void prefetch_poll(Process& process, std::uint32_t index);

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
  if (qp.polled_qpn.load(std::memory_order_relaxed) == slots.qpn)
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

/// `armed`: kArmedForSolicited or kArmedForAny.
void arm(Process& process, std::uint32_t index, CqCare armed);

/// Removes what a QP left in a CQ: its number may come again.
void purge(Process& process, std::uint32_t index, std::uint32_t qpn);

}  // namespace hbmwire::emulation::nic
