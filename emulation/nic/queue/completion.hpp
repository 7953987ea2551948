// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "emulation/nic/state/nic_room.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

struct CqRequest {
  std::uint32_t depth = 0;  ///< entries
  std::uint64_t cookie = 0;
  std::uint64_t channel = 0;
  std::uint64_t async_channel = 0;
  NicRoom room;
};

/// Index of a new CQ, or 0 with errno.
std::uint32_t claim_cq(Process& process, const CqRequest& request);

/// Gives a CQ another depth, with the entries that wait in it. 0, or an errno, and it is as it was:
/// EINVAL when they would not fit, ENOMEM when the heap is full, EBUSY when it is not to be had.
int resize_cq_ring(Process& process, std::uint32_t index, std::uint32_t depth);

/// Takes a CQ that no QP uses any more out of service; events may no longer come from it. False: it
/// is not to be had now.
[[nodiscard]] bool stop_cq(Process& process, std::uint32_t index);
void release_cq(Process& process, std::uint32_t index);

/// With CqRecord::mutex inherited: ends what its holder left half done.
void repair(Process& process, CqRecord& cq);

/// Holds CqRecord::mutex, or not (Hold). What a holder that died left half done is ended first.
class [[nodiscard]] CqHold : public FavouredHold {
 public:
  [[gnu::always_inline]] CqHold(Process& process, CqRecord& cq)
      : FavouredHold(cq.mutex, Place::completing) {
    if (inherited()) [[unlikely]]
      repair(process, cq);
  }
};

/// Where a position lies in the ring, as one side has it.
inline CqPlace& place_at(const Process& process, const CqSide& side, std::uint64_t position) {
  return *process.at<CqPlace>(cqe_offset(side.ring.load(std::memory_order_relaxed),
                                         side.mask.load(std::memory_order_relaxed), position));
}

/// Whether the entry of that position is there, and may be read.
[[gnu::always_inline]] inline bool holds(const CqPlace& place, std::uint64_t position) {
  // Pairs with the release in publish().
  return place.sequence.load(std::memory_order_acquire) == position + 1;
}

/// The entry is there from now on.
[[gnu::always_inline]] inline void publish(CqPlace& place, std::uint64_t position) {
  place.sequence.store(position + 1, std::memory_order_release);
}

/// Whether a CQ's oldest entry is there, at a glance: without a lock it may be wrong while the ring
/// is changed.
[[gnu::always_inline]] inline bool has_entry(const Process& process, const CqRecord& cq) {
  const std::uint64_t head = cq.head.load(std::memory_order_relaxed);
  return holds(cq.front, head) || holds(place_at(process, cq.out, head), head);
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
  static_assert(offsetof(Cqe, status) == 8 && offsetof(Cqe, byte_len) == 20 &&
                offsetof(Cqe, immediate) == 24 && offsetof(Cqe, source_qpn) == 32 &&
                offsetof(Cqe, send_index) == 40);
  auto* const at = reinterpret_cast<std::byte*>(&entry);
  const auto store = [at](std::size_t offset, WordPair words) {
    std::memcpy(at + offset, &words, sizeof(words));
  };
  store(0, WordPair{done.wr_id, word(IBV_WC_SUCCESS, done.opcode)});
  store(16, WordPair{word(0, done.byte_len), word(0, done.qpn)});
  store(32, WordPair{0, done.send_index});
}

/// Where the next entry goes. Whether the CQ is empty stands in its reader's cache: where it was
/// not, that is asked for once in a few entries. With CqRecord::mutex held.
[[gnu::always_inline]] inline CqPlace& next_place(const Process& process, CqRecord& cq,
                                                  std::uint64_t tail) {
  constexpr std::uint64_t kFew = 8;
  const bool asks = holds(cq.front, tail - 1) || (tail & (kFew - 1)) == 0;
  if (asks && cq.head.load(std::memory_order_acquire) == tail)  // pairs with the release in take()
    return cq.front;
  return place_at(process, cq.in, tail);
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
  if (tail >= cq.room_until || cq.in.care != 0) return false;
  CqPlace& place = next_place(process, cq, tail);
  fill(place.entry, done());
  publish(place, tail);
  cq.tail.store(tail + 1, std::memory_order_relaxed);
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
/// for; how many. CqRecord::reading is held, and CqRecord::mutex where kReplaces says so.
template <typename Use>
int take(const Process& process, CqRecord& cq, int count, Use use) {
  const std::uint64_t head = cq.head.load(std::memory_order_relaxed);
  int taken = 0;
  SendSlots released;
  const auto take_from = [&](const CqPlace& place) {
    const Cqe& entry = place.entry;
    use(entry, taken++);
    if (entry.send_index == 0) return;
    if (entry.qpn != released.qpn) release(process, released);
    released = {entry.qpn, entry.send_index};
  };
  // Only the oldest can be in front, as the CQ was empty then. A thread of this process put it
  // there, which has `tail` in its cache: mostly there is no other, and no need to look for it.
  const bool in_front = holds(cq.front, head) && count > 0;
  if (in_front) take_from(cq.front);
  if (!in_front || cq.tail.load(std::memory_order_acquire) != head + 1) {
    for (std::uint64_t position = head + static_cast<unsigned>(taken); taken < count; ++position) {
      const CqPlace& place = place_at(process, cq.out, position);
      if (!holds(place, position)) break;
      take_from(place);
    }
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
