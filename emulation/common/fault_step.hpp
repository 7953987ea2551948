// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>

#include "emulation/common/faults.hpp"

namespace hbmwire::emulation {

/// Where a process can be made to die or to stop, for the tests of what happens to the others.
class StepTrap {
 public:
  /// The n-th arrival at `step` from now (1: the next) sends `signal` to the thread. An empty step
  /// disarms. One thread at a time, while no other arrives anywhere.
  static void set(std::string_view step, std::int64_t nth, int signal);

  static void arrive(std::string_view step) noexcept;
};

/// The trap, then the plan.
void come_to_step(const char* step) noexcept;

/// The process is at a step of its work (kFaultSteps): a plan's rule or a trap may kill or stop it
/// here. With neither one branch.
[[gnu::always_inline]] inline void fault_step(const char* step) noexcept {
  if (!FaultPlan::plans(FaultRule::Point::step)) [[likely]]
    return;
  come_to_step(step);
}

}  // namespace hbmwire::emulation
