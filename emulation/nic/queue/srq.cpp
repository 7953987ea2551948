// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/srq.hpp"

#include <bit>
#include <cerrno>

#include "emulation/common/fault_step.hpp"
#include "emulation/nic/queue/events.hpp"
#include "emulation/nic/state/allocation.hpp"
#include "emulation/nic/state/receive_ring.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// Wakes the processes whose requests wait for a receive, once.
void wake_waiting(Process& process, SrqRecord& srq) {
  std::uint32_t first = 0;
  for (auto& word : srq.waiting) {
    // Looks first, without a locked instruction: a waiter sets its bit with the lock held.
    for (std::uint64_t bits = word.load() == 0 ? 0 : word.exchange(0); bits != 0; bits &= bits - 1)
      process.poke(first + static_cast<std::uint32_t>(std::countr_zero(bits)));
    first += 64;
  }
}

/// man ibv_modify_srq: the event comes once for each arming. SrqRecord::mutex is held.
void check_limit(Process& process, SrqRecord& srq) {
  if (srq.limit == 0 || srq.receives.tail - srq.receives.head >= srq.limit) return;
  // The event comes first: if this process is killed it may come twice, but must not be lost.
  raise_async(process, srq.owner.load(), srq.events, IBV_EVENT_SRQ_LIMIT_REACHED);
  srq.limit = 0;
}

/// Whether the QP has taken a receive from this SRQ and not completed it.
bool is_taken(const SrqRecord& srq, const TakenReceive& taken) {
  return taken.valid.load() != 0 && taken.srq_number == srq.number.load() &&
         taken.position < srq.receives.head;
}

/// Whether a receive is posted; if not, notes that this process waits. SrqRecord::mutex is held,
/// and posting takes it too. So a receive is either seen here, or its poster sees that this process
/// waits.
bool posted_or_wait(const Process& process, SrqRecord& srq) {
  if (srq.number.load() != 0 && !srq.receives.empty()) return true;
  srq.waiting[process.slot() / 64].fetch_or(1ULL << process.slot() % 64);
  return false;
}

}  // namespace

std::uint32_t claim_srq(Process& process, const SrqRequest& request) {
  SharedState& shared = process.shared();
  const Allocation guard(process);
  if (!guard.held()) {
    errno = EBUSY;
    return 0;
  }
  if (!has_room(process, shared.srqs, shared.uses.srqs, request.room)) {
    errno = ENOMEM;
    return 0;
  }
  const std::uint32_t index = shared.uses.srqs.claim();
  SrqRecord& srq = shared.srqs[index];
  if (index == 0 || !make_receives(process, srq.receives, request.depth, request.max_sge)) {
    if (index != 0) shared.uses.srqs.release(index);
    errno = ENOMEM;
    return 0;
  }
  srq.owner.store(process.slot());
  srq.claimed = 1;
  fault_step("claimed");
  srq.type = request.type;
  srq.nic = request.room.nic;
  srq.cq = request.cq;
  srq.limit = request.limit;
  srq.pd = request.pd;
  srq.xrcd = request.xrcd;
  srq.events = request.events;
  for (auto& word : srq.waiting) word.store(0);
  srq.number.store(make_qpn(index, ++srq.generation));
  return index;
}

bool stop_srq(Process& process, std::uint32_t index) {
  SrqRecord& srq = process.shared().srqs[index];
  const Hold guard(srq.mutex);
  if (!guard.held()) return false;
  srq.number.store(0);
  set_pending(process, srq.owner.load(), srq.events, 0);
  wake_waiting(process, srq);  // requests that wait for the SRQ fail now
  return true;
}

void release_srq(Process& process, std::uint32_t index) {
  release_record(process, [&process, index] {
    SrqRecord& srq = process.shared().srqs[index];
    free_receives(process, srq.receives);
    fault_step("released");
    srq.claimed = 0;
    process.shared().uses.srqs.release(index);
  });
}

int change_srq(Process& process, std::uint32_t index, std::optional<std::uint32_t> depth,
               std::optional<std::uint32_t> limit) {
  SharedState& shared = process.shared();
  SrqRecord& srq = shared.srqs[index];
  const Allocation guard(process);
  if (!guard.held()) return EBUSY;
  const Hold queue(srq.mutex);
  if (!queue.held()) return EBUSY;
  const std::uint32_t new_depth = depth.value_or(srq.receives.depth);
  const bool valid = new_depth != 0 && new_depth <= kMaxWr &&
                     new_depth >= srq.receives.tail - srq.receives.head &&
                     new_depth >= limit.value_or(srq.limit);
  if (!valid) return EINVAL;
  if (depth && !resize_receives(process, srq.receives, new_depth)) return ENOMEM;
  if (limit) {
    srq.limit = *limit;
    check_limit(process, srq);
  }
  return 0;
}

int post_shared_receive(Process& process, SrqRecord& srq, const ibv_recv_wr& request) {
  {
    const Hold guard(srq.mutex);
    if (!guard.held()) return EAGAIN;
    if (const int error = append_receive(process, srq.receives, request); error != 0) return error;
  }
  wake_waiting(process, srq);
  return 0;
}

Taking look_for_shared_receive(Process& process, std::uint32_t index, const TakenReceive& taken) {
  SrqRecord& srq = process.shared().srqs[index];
  const Hold guard(srq.mutex);
  if (!guard.held()) return Taking::held;
  return is_taken(srq, taken) || posted_or_wait(process, srq) ? Taking::taken : Taking::none;
}

Taking take_shared_receive(Process& process, std::uint32_t index, TakenReceive& taken) {
  SrqRecord& srq = process.shared().srqs[index];
  const Hold guard(srq.mutex);
  if (!guard.held()) return Taking::held;
  if (is_taken(srq, taken)) return Taking::taken;
  if (!posted_or_wait(process, srq)) return Taking::none;
  taken.valid.store(0);
  copy_oldest(process, srq.receives, taken.entry);
  taken.srq_number = srq.number.load();
  taken.position = srq.receives.head;
  taken.valid.store(1);
  ++srq.receives.head;  // this one store takes the receive
  check_limit(process, srq);
  return Taking::taken;
}

}  // namespace hbmwire::emulation::nic
