// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <string_view>

#include "emulation/common/fault_step.hpp"
#include "emulation/common/faults.hpp"
#include "emulation/nic/hook/command_hook.hpp"
#include "emulation/nic/memory/mover.hpp"
#include "emulation/nic/queue/completion.hpp"
#include "emulation/nic/state/allocation.hpp"
#include "emulation/nic/state/process.hpp"

/// Functions that tests find with dlsym. This one is for fail-the-n-th-call sweeps.
extern "C" [[gnu::visibility("default")]] long hbmwire_nic_fail_nth_call(long n, int error_number) {
  return static_cast<long>(
      hbmwire::emulation::FaultPlan::of_this_process().fail_nth_call(n, error_number));
}

/// Makes every call of the libibverbs function of that name fail, until another one is named; null:
/// none.
extern "C" [[gnu::visibility("default")]] void hbmwire_nic_fail_calls(const char* call,
                                                                      int error_number) {
  hbmwire::emulation::FaultPlan::of_this_process().fail_calls(call, error_number);
}

/// Refuses `count` requests with `error_number`, from the n-th (0 = the next) on that this process
/// posts to any queue pair. Earlier requests of the same call are posted.
extern "C" [[gnu::visibility("default")]] void hbmwire_nic_refuse_requests(unsigned long long n,
                                                                           unsigned long long count,
                                                                           int error_number) {
  hbmwire::emulation::FaultPlan::of_this_process().refuse_operations(n, count, error_number);
}

/// Bytes of messages that this process has copied since the first call, which starts the counting.
extern "C" [[gnu::visibility("default")]] unsigned long long hbmwire_nic_copied_bytes() {
  return hbmwire::emulation::nic::CopyCount::begin();
}

/// The number of objects of `kind` ("context", "pd", "mr", "cq", "qp", "channel", "ah", "srq",
/// "xrcd", "mw") that this process has; ~0 for an unknown kind.
extern "C" [[gnu::visibility("default")]] unsigned hbmwire_nic_live_objects(const char* kind) {
  using namespace hbmwire::emulation::nic;
  constexpr std::array<std::string_view, kObjectKinds> kNames{"context", "pd", "mr",  "cq",   "qp",
                                                              "channel", "ah", "srq", "xrcd", "mw"};
  const auto found = std::find(kNames.begin(), kNames.end(), std::string_view(kind));
  if (found == kNames.end()) return ~0U;
  const auto wanted = static_cast<ObjectKind>(found - kNames.begin());
  if (wanted == ObjectKind::channel) return static_cast<unsigned>(count_channels());
  const Process* process = Process::current();
  return process == nullptr ? 0 : process->live(wanted);
}

/// How often this process could not take a lock because a stopped process holds it. If a call was
/// to destroy an object, the object is left.
extern "C" [[gnu::visibility("default")]] unsigned long long hbmwire_nic_locks_not_had() {
  return hbmwire::emulation::locks_not_had();
}

/// Makes the n-th arrival at `step` from now on send `signal` to the arriving thread.
extern "C" [[gnu::visibility("default")]] void hbmwire_nic_set_step_trap(const char* step,
                                                                         std::int64_t nth,
                                                                         int signal) {
  hbmwire::emulation::StepTrap::set(step, nth, signal);
}

namespace {

using namespace hbmwire::emulation::nic;

template <typename Records, typename IsClaimed>
std::uint64_t count_claimed(const Records& records, IsClaimed is_claimed) {
  std::uint64_t count = 0;
  for (const auto& record : records) {
    if (is_claimed(record)) ++count;
  }
  return count;
}

/// Counts the records of all processes except the caller.
std::uint64_t count_records(SharedState& shared, std::uint32_t slot) {
  const Header& header = shared.header;
  const auto others = [slot](const auto& record) {
    return record.claimed != 0 && record.owner != slot;
  };
  const auto used = [slot](const CqRecord& cq) { return cq.used.load() != 0 && cq.owner != slot; };
  const auto has_id = [slot](const XrcdRecord& domain) {
    return domain.id.load() != 0 && domain.owner != slot;
  };
  return count_claimed(in_use(shared.qps, shared.uses.qps), others) +
         count_claimed(in_use(shared.cqs, shared.uses.cqs), used) +
         count_claimed(in_use(shared.srqs, shared.uses.srqs), others) +
         count_claimed(in_use(shared.mrs, shared.uses.mrs), others) +
         count_claimed(in_use(shared.mws, shared.uses.mws), others) +
         count_claimed(in_use(shared.xrcds, shared.uses.xrcds), has_id) +
         count_claimed(in_use(shared.xrc_handles, shared.uses.xrc_handles), others) +
         count_claimed(touched(shared.contexts, header.next_context), others);
}

}  // namespace

/// The number of records of other processes that the fabric uses, plus the number of these
/// processes. Reaps dead processes first. ~0: a stopped process holds a lock.
extern "C" [[gnu::visibility("default")]] std::uint64_t hbmwire_nic_records_of_others() {
  Process* const process = Process::current();
  if (process == nullptr) return ~std::uint64_t{0};
  SharedState& shared = process->shared();
  std::uint64_t count = 0;
  const std::uint32_t end = shared.header.processes_end.load();
  for (std::uint32_t slot = 0; slot < end; ++slot) {
    if (slot == process->slot()) continue;
    process->reap(slot);
    count += shared.processes[slot].claimed.load();
  }
  const Allocation guard(*process);
  return guard.held() ? count + count_records(shared, process->slot()) : ~std::uint64_t{0};
}

/// Bytes of the ring heap that are in use, for all processes.
extern "C" [[gnu::visibility("default")]] std::uint64_t hbmwire_nic_ring_bytes() {
  Process* const process = Process::current();
  if (process == nullptr) return ~std::uint64_t{0};
  const Allocation guard(*process);
  return guard.held() ? ring_bytes_in_use(*process) : ~std::uint64_t{0};
}

/// Whether every lock of the shared state is free.
extern "C" [[gnu::visibility("default")]] bool hbmwire_nic_locks_are_free() {
  Process& process = *Process::current();
  SharedState& shared = process.shared();
  const auto is_free = [](hbmwire::emulation::RobustMutex& mutex) {
    return hbmwire::emulation::Hold(mutex, hbmwire::emulation::WithoutWaiting{}).held();
  };
  const auto may_be_had = [](hbmwire::emulation::nic::FavouredLock& lock, Place place) {
    return FavouredHold(lock, place, hbmwire::emulation::WithoutWaiting{}).held();
  };
  const auto no = hbmwire::emulation::WithoutWaiting{};
  bool all = Allocation(process, no).held() && is_free(shared.header.atomics) &&
             is_free(shared.header.grace) && is_free(shared.cm.mutex);
  for (QpRecord& qp : in_use(shared.qps, shared.uses.qps))
    all = may_be_had(qp.responder, Place::responder) && is_free(qp.queue) && all;
  for (CqRecord& cq : in_use(shared.cqs, shared.uses.cqs)) {
    const FavouredHold queue(cq.mutex, Place::completing, hbmwire::emulation::WithoutWaiting{});
    if (queue.inherited()) repair(*Process::current(), cq);
    all = queue.held() && may_be_had(cq.reading, Place::reading) && all;
  }
  for (SrqRecord& srq : in_use(shared.srqs, shared.uses.srqs)) all = is_free(srq.mutex) && all;
  for (PortRecord& port : shared.ports) all = is_free(port.publishing) && all;
  return all;
}
