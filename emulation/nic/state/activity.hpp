// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

/// This thread is at work with keys: it looks MRs and windows up and moves their bytes. Whoever
/// makes a key invalid waits until all who may have seen it are through (wait_for_activity), so
/// that no byte of a deregistered region changes.
class Activity {
 public:
  explicit Activity(Process& process) noexcept
      : active_(process.shared()
                    .processes[process.slot()]
                    .active[process.shared().header.phase.load() & 1U]) {
    active_.fetch_add(1);
  }

  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;
  Activity(Activity&&) = delete;
  Activity& operator=(Activity&&) = delete;

  ~Activity() { active_.fetch_sub(1); }

 private:
  std::atomic<std::uint32_t>& active_;
};

/// Waits until every Activity that had begun in a living process of the fabric has ended. The
/// caller is in none itself, and holds no lock that one could wait for. False: a process was
/// stopped in one, or has been in one for half a minute.
[[nodiscard]] bool wait_for_activity(Process& process);

}  // namespace hbmwire::emulation::nic
