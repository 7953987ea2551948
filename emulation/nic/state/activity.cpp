// SPDX-License-Identifier: MIT
#include "emulation/nic/state/activity.hpp"

#include <sched.h>

#include <mutex>

namespace hbmwire::emulation::nic {
namespace {

void wait_for_phase(Process& process, std::uint32_t phase) {
  for (std::uint32_t slot = 0; slot < kMaxProcesses; ++slot) {
    const ProcessRecord& record = process.shared().processes[slot];
    // A killed process leaves its count behind, and is no longer at work.
    while (record.claimed.load() != 0 && record.active[phase].load() != 0 && process.alive(slot))
      ::sched_yield();
  }
}

}  // namespace

/// As sleepable RCU does it: new activities count in the other phase, so that those waited for can
/// only become fewer. Twice, since one may have read the phase before the first change and count
/// itself after it.
void wait_for_activity(Process& process) {
  Header& header = process.shared().header;
  const std::lock_guard guard(header.grace);
  for (int round = 0; round < 2; ++round) wait_for_phase(process, header.phase.fetch_add(1) & 1U);
}

}  // namespace hbmwire::emulation::nic
