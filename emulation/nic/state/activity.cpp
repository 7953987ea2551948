// SPDX-License-Identifier: MIT
#include "emulation/nic/state/activity.hpp"

#include <sched.h>

#include <span>

#include "emulation/common/stopped.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// Waits while `busy` says that the process in `slot` uses keys.
template <typename Busy>
bool wait_for_process(Process& process, std::uint32_t slot, Busy busy) {
  constexpr std::uint64_t kLookNs = 1'000'000;          // between looks into /proc: is it stopped?
  constexpr std::uint64_t kLongestNs = 30'000'000'000;  // much longer than any copy takes
  if (!busy()) return true;
  const ProcessRecord& record = process.shared().processes[slot];
  const std::uint64_t start = now_ns();
  std::uint64_t looked = start;
  // A killed process leaves its marks and its count behind, but does not use keys any more.
  while (record.claimed.load() != 0 && busy() && process.alive(slot)) {
    ::sched_yield();
    const std::uint64_t now = now_ns();
    if (now - looked < kLookNs) continue;
    looked = now;
    const bool stopped = slot != process.slot() && is_stopped(record.pid.load());
    if (stopped || now - start > kLongestNs) return false;
  }
  return true;
}

/// Threads that join, or begin an Activity, after the fence find the key invalid already.
bool wait_for_marks(Process& process) {
  fence_all_threads();
  SharedState& shared = process.shared();
  const std::uint32_t end = shared.header.processes_end.load();
  for (std::uint32_t slot = 0; slot < end; ++slot) {
    const ProcessRecord& record = shared.processes[slot];
    if (record.claimed.load() == 0) continue;
    for (const ThreadMark& mark : std::span(shared.marks[slot]).first(record.marks_end.load())) {
      const std::uint64_t begun = mark.working.load(std::memory_order_acquire);
      const auto busy = [&] { return mark.working.load(std::memory_order_acquire) == begun; };
      const bool in_activity = begun % 2 != 0;
      if (in_activity && !wait_for_process(process, slot, busy)) return false;
    }
  }
  return true;
}

bool wait_for_phase(Process& process, std::uint32_t phase) {
  const std::uint32_t end = process.shared().header.processes_end.load();
  for (std::uint32_t slot = 0; slot < end; ++slot) {
    const auto& active = process.shared().processes[slot].active[phase];
    if (!wait_for_process(process, slot, [&] { return active.load() != 0; })) return false;
  }
  return true;
}

}  // namespace

void Activity::count(Process& process) noexcept {
  mark_ = OwnMark::ask();
  if (mark_ != nullptr) {
    mark_->begin_work();
    return;
  }
  const std::uint32_t phase = process.shared().header.phase.load() & 1U;
  active_ = &process.shared().processes[process.slot()].active[phase];
  active_->fetch_add(1);
}

/// Threads with marks are waited for by their marks. Threads without one are waited for in phases,
/// as in sleepable RCU: new activities count in the other phase, so the count that is waited for
/// can only fall. There are two rounds, because a thread may have read the phase before the first
/// change and count itself after it.
bool wait_for_activity(Process& process) {
  Header& header = process.shared().header;
  const Hold guard(header.grace);
  if (!guard.held() || !wait_for_marks(process)) return false;
  for (int round = 0; round < 2; ++round) {
    if (!wait_for_phase(process, header.phase.fetch_add(1) & 1U)) return false;
  }
  return true;
}

}  // namespace hbmwire::emulation::nic
