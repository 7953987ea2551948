// SPDX-License-Identifier: MIT
#include "emulation/nic/state/activity.hpp"

#include <sched.h>

#include "emulation/common/stopped.hpp"

namespace hbmwire::emulation::nic {
namespace {

bool wait_for_process(Process& process, std::uint32_t slot, std::uint32_t phase) {
  constexpr std::uint64_t kLookNs = 1'000'000;
  constexpr std::uint64_t kLongestNs = 30'000'000'000;  // much longer than any copy
  const ProcessRecord& record = process.shared().processes[slot];
  const std::uint64_t start = now_ns();
  std::uint64_t looked = start;
  // A killed process leaves its count behind, and is no longer at work.
  while (record.claimed.load() != 0 && record.active[phase].load() != 0 && process.alive(slot)) {
    ::sched_yield();
    const std::uint64_t now = now_ns();
    if (now - looked < kLookNs) continue;
    looked = now;
    const bool stands = slot != process.slot() && is_stopped(record.pid.load());
    if (stands || now - start > kLongestNs) return false;
  }
  return true;
}

bool wait_for_phase(Process& process, std::uint32_t phase) {
  for (std::uint32_t slot = 0; slot < kMaxProcesses; ++slot) {
    if (!wait_for_process(process, slot, phase)) return false;
  }
  return true;
}

}  // namespace

/// As sleepable RCU does it: new activities count in the other phase, so that those waited for can
/// only become fewer. Twice, since one may have read the phase before the first change and count
/// itself after it.
bool wait_for_activity(Process& process) {
  Header& header = process.shared().header;
  const Hold guard(header.grace);
  if (!guard.held()) return false;
  for (int round = 0; round < 2; ++round) {
    if (!wait_for_phase(process, header.phase.fetch_add(1) & 1U)) return false;
  }
  return true;
}

}  // namespace hbmwire::emulation::nic
