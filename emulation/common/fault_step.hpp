// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>

#include "emulation/common/faults.hpp"

namespace hbmwire::emulation {

/// Makes a process die or stop at a step, for tests of how the other processes go on.
class StepTrap {
 public:
  /// Makes the n-th arrival at `step` from now (1: the next) send `signal` to the arriving thread.
  /// An empty step disarms the trap. Call it from one thread, while no other thread arrives at a
  /// step.
  static void set(std::string_view step, std::int64_t nth, int signal);

  static void arrive(std::string_view step) noexcept;
};

/// Checks the trap and then the plan.
void come_to_step(const char* step) noexcept;

/// Marks a step of the process' work (kFaultSteps), where a plan's rule or a trap may kill or stop
/// the process. Costs one branch without either.
[[gnu::always_inline]] inline void fault_step(const char* step) noexcept {
  if (!FaultPlan::plans(FaultRule::Point::step)) [[likely]]
    return;
  come_to_step(step);
}

}  // namespace hbmwire::emulation
