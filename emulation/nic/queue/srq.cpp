// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/srq.hpp"

#include <bit>
#include <cerrno>
#include <mutex>

#include "emulation/common/faults.hpp"
#include "emulation/nic/queue/events.hpp"
#include "emulation/nic/state/receive_ring.hpp"

namespace hbmwire::emulation::nic {
namespace {

void wake_waiting(Process& process, SrqRecord& srq) {
  std::uint32_t first = 0;
  for (auto& word : srq.waiting) {
    for (std::uint64_t bits = word.exchange(0); bits != 0; bits &= bits - 1)
      process.poke(first + static_cast<std::uint32_t>(std::countr_zero(bits)));
    first += 64;
  }
}

/// man ibv_modify_srq: the event comes once for each arming. With SrqRecord::mutex held.
void check_limit(Process& process, SrqRecord& srq) {
  if (srq.limit == 0 || srq.receives.tail - srq.receives.head >= srq.limit) return;
  srq.limit = 0;
  raise_async(process, srq.owner.load(), srq.events, IBV_EVENT_SRQ_LIMIT_REACHED);
}

/// With SrqRecord::mutex held, which posting takes: a receive is either seen here, or whoever posts
/// it sees who waits.
bool posted_or_wait(const Process& process, SrqRecord& srq) {
  if (srq.number.load() != 0 && !srq.receives.empty()) return true;
  srq.waiting[process.slot() / 64].fetch_or(1ULL << process.slot() % 64);
  return false;
}

}  // namespace

std::uint32_t claim_srq(Process& process, const SrqRequest& request) {
  SharedState& shared = process.shared();
  const std::lock_guard guard(shared.header.allocation);
  std::uint32_t& next = shared.header.next_srq;
  for (std::uint32_t tried = 0; tried < kMaxSrqs; ++tried) {
    const std::uint32_t index = next++ % kMaxSrqs;
    SrqRecord& srq = shared.srqs[index];
    if (index == 0 || srq.claimed != 0) continue;
    if (!make_receives(process, srq.receives, request.depth, request.max_sge)) break;
    if (srq.locks_made == 0) {
      srq.mutex.initialise();
      srq.locks_made = 1;
    }
    srq.claimed = 1;
    srq.owner.store(process.slot());
    fault_step("claimed");
    srq.type = request.type;
    srq.cq = request.cq;
    srq.limit = request.limit;
    srq.pd = request.pd;
    srq.xrcd = request.xrcd;
    srq.events = request.events;
    for (auto& word : srq.waiting) word.store(0);
    srq.number.store(make_qpn(index, ++srq.generation));
    return index;
  }
  errno = ENOMEM;
  return 0;
}

void stop_srq(Process& process, std::uint32_t index) {
  SrqRecord& srq = process.shared().srqs[index];
  const std::lock_guard guard(srq.mutex);
  srq.number.store(0);
  srq.events.pending = 0;
  wake_waiting(process, srq);  // what waits for it fails now
}

void release_srq(Process& process, std::uint32_t index) {
  SharedState& shared = process.shared();
  const std::lock_guard guard(shared.header.allocation);
  free_receives(process, shared.srqs[index].receives);
  fault_step("released");
  shared.srqs[index].claimed = 0;
}

int change_srq(Process& process, std::uint32_t index, std::optional<std::uint32_t> depth,
               std::optional<std::uint32_t> limit) {
  SharedState& shared = process.shared();
  SrqRecord& srq = shared.srqs[index];
  const std::lock_guard guard(shared.header.allocation);
  const std::lock_guard queue(srq.mutex);
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
    const std::lock_guard guard(srq.mutex);
    if (const int error = append_receive(process, srq.receives, request); error != 0) return error;
  }
  wake_waiting(process, srq);
  return 0;
}

bool shared_receive_is_posted(Process& process, std::uint32_t index) {
  SrqRecord& srq = process.shared().srqs[index];
  const std::lock_guard guard(srq.mutex);
  return posted_or_wait(process, srq);
}

bool take_shared_receive(Process& process, std::uint32_t index, ReceiveEntry& entry) {
  SrqRecord& srq = process.shared().srqs[index];
  const std::lock_guard guard(srq.mutex);
  if (!posted_or_wait(process, srq)) return false;
  copy_oldest(process, srq.receives, entry);
  ++srq.receives.head;
  check_limit(process, srq);
  return true;
}

}  // namespace hbmwire::emulation::nic
