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

/// The properties of a CQ to be made. The channels are ids of FIFOs; 0: none.
struct CqRequest {
  std::uint32_t depth = 0;  ///< entries
  std::uint64_t cookie = 0;
  std::uint64_t channel = 0;
  std::uint64_t async_channel = 0;
  NicRoom room;
};

/// Makes a CQ. Returns its index, or 0 with errno.
std::uint32_t claim_cq(Process& process, const CqRequest& request);

/// Changes a CQ's depth and keeps its entries. Returns 0, or an errno with the CQ unchanged: EINVAL
/// if the entries do not fit, ENOMEM if the heap is full, EBUSY if a stopped process holds a lock.
int resize_cq_ring(Process& process, std::uint32_t index, std::uint32_t depth);

/// Stops a CQ that no QP uses any more, so that it raises no more events. Returns false if a
/// stopped process holds its lock.
[[nodiscard]] bool stop_cq(Process& process, std::uint32_t index);
void release_cq(Process& process, std::uint32_t index);

/// Finishes the work that a dead holder of CqRecord::mutex left half done. The caller has inherited
/// the lock.
void repair(Process& process, CqRecord& cq);

/// Holds CqRecord::mutex, as Hold does. Repairs the CQ first if the last holder died.
class [[nodiscard]] CqHold : public FavouredHold {
 public:
  [[gnu::always_inline]] CqHold(Process& process, CqRecord& cq)
      : FavouredHold(cq.mutex, Place::completing) {
    if (inherited()) [[unlikely]]
      repair(process, cq);
  }
};

/// The place in the ring of a position, as one side of the CQ sees it.
inline CqPlace& place_at(const Process& process, const CqSide& side, std::uint64_t position) {
  return *process.at<CqPlace>(cqe_offset(side.ring.load(std::memory_order_relaxed),
                                         side.mask.load(std::memory_order_relaxed), position));
}

/// Whether the place holds the complete entry of `position`.
[[gnu::always_inline]] inline bool holds(const CqPlace& place, std::uint64_t position) {
  // Pairs with the release in publish().
  return place.sequence.load(std::memory_order_acquire) == position + 1;
}

/// Marks the entry of `position` as complete, so that readers see it.
[[gnu::always_inline]] inline void publish(CqPlace& place, std::uint64_t position) {
  place.sequence.store(position + 1, std::memory_order_release);
}

/// Whether a CQ has an entry. A quick look without a lock, which may be wrong while the ring is
/// being changed.
[[gnu::always_inline]] inline bool has_entry(const Process& process, const CqRecord& cq) {
  const std::uint64_t head = cq.head.load(std::memory_order_relaxed);
  return holds(cq.front, head) || holds(place_at(process, cq.out, head), head);
}

/// Appends an entry, and raises an event if the CQ is armed. Returns false if this overruns the CQ:
/// the caller must call overrun() as soon as it holds no queue lock. If a stopped process holds the
/// CQ's lock, this process puts the entry off until later.
[[nodiscard]] bool push(Process& process, std::uint32_t index, const Cqe& entry, bool solicited);

/// The completion of a successful send.
struct SendCompletion {
  std::uint64_t wr_id;
  std::uint64_t send_index;
  std::uint32_t opcode;
  std::uint32_t byte_len;
  std::uint32_t qpn;
};

/// Two words that are stored, or loaded, together. Entries are written and read with the same
/// pairs, because a load that spans two recent stores would have to wait for the cache.
using WordPair [[gnu::vector_size(16)]] = std::uint64_t;

[[gnu::always_inline]] inline std::uint64_t word(std::uint32_t low, std::uint32_t high) {
  static_assert(std::endian::native == std::endian::little);
  return std::uint64_t{high} << 32U | low;
}

/// Fills in the entry of a successful send.
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

/// The place for the next entry. Only a load of `head`, which lies in the reader's cache, shows
/// whether the CQ is empty. So once the CQ was not empty, `head` is loaded only for every eighth
/// entry. CqRecord::mutex is held.
[[gnu::always_inline]] inline CqPlace& next_place(const Process& process, CqRecord& cq,
                                                  std::uint64_t tail) {
  constexpr std::uint64_t kFew = 8;
  const bool was_empty = holds(cq.front, tail - 1);  // when the last entry was added
  const bool asks = was_empty || (tail & (kFew - 1)) == 0;
  if (asks && cq.head.load(std::memory_order_acquire) == tail)  // pairs with the release in take()
    return cq.front;
  return place_at(process, cq.in, tail);
}

/// As push(), for a success, on a fast path. `done` supplies the completion; `mark` and `token` are
/// the calling thread's. The CQ belongs to this process and is used by the process' own queue
/// pairs. Returns false, having done nothing, if the lock does not favour the thread, if the CQ is
/// armed or needs other care, or if it may be full. Fault steps are skipped, so the caller has
/// checked that no fault plan counts them.
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

/// As push(), for the completion of a receive, and consumes that receive: the oldest one of the
/// QP's own queue (QpRecord::queue is held), or the one that the QP has taken from an SRQ. Does
/// nothing if there is no such receive, because another thread has flushed it.
[[nodiscard]] bool push_receive(Process& process, std::uint32_t index, QpRecord& qp,
                                const Cqe& entry, bool solicited);

/// Prefetches the place for the next entry.
void prefetch_push(Process& process, std::uint32_t index);

/// Prefetches what a thread needs that has been woken for the CQ: it is about to arm and poll, and
/// peers wrote those lines meanwhile.
void prefetch_poll(Process& process, std::uint32_t index);

/// Handles the overrun of a CQ: raises IBV_EVENT_CQ_ERR, and moves every QP that uses the CQ to ERR
/// with IBV_EVENT_QP_FATAL.
void overrun(Process& process, std::uint32_t index);

/// push(), followed by overrun() if necessary. No queue lock is held.
void complete(Process& process, std::uint32_t index, const Cqe& entry, bool solicited);

/// Slots of a QP's send queue, up to an index, that completions have freed.
struct SendSlots {
  std::uint32_t qpn = 0;  // 0: none
  std::uint64_t index = 0;
};

/// Lets the QP's owner post into these slots again.
inline void release(const Process& process, const SendSlots& slots) {
  if (slots.qpn == 0) return;
  QpRecord& qp = process.shared().qps[qp_index(slots.qpn)];
  // An entry that could not be purged may belong to an older QP with the same index.
  if (qp.polled_qpn.load(std::memory_order_relaxed) == slots.qpn)
    qp.sends_released.store(slots.index, std::memory_order_release);
}

/// Passes the oldest entries, `count` at most, to `use`, and frees the send slots that they stand
/// for. Returns their number. CqRecord::reading is held; if kReplaces is set, CqRecord::mutex too.
template <typename Use>
int take(const Process& process, CqRecord& cq, int count, Use use) {
  const std::uint64_t head = cq.head.load(std::memory_order_relaxed);
  int taken = 0;
  SendSlots released;
  const auto take_from = [&](const CqPlace& place) {
    const Cqe& entry = place.entry;
    use(entry, taken++);
    if (entry.send_index == 0) return;
    // One store for all consecutive entries of a QP.
    if (entry.qpn != released.qpn) release(process, released);
    released = {entry.qpn, entry.send_index};
  };
  // Only the oldest entry can be in front, because the CQ was empty when it was put there. Usually
  // it is the only entry. A thread of this process wrote it, so a look at `tail` is cheap.
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

/// Arms the CQ. `armed` is kArmedForSolicited or kArmedForAny.
void arm(Process& process, std::uint32_t index, CqCare armed);

/// Removes a QP's entries from a CQ, because its number may be reused.
void purge(Process& process, std::uint32_t index, std::uint32_t qpn);

}  // namespace hbmwire::emulation::nic
