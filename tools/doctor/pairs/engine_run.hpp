// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/pairs/pair.hpp"
#include "tools/doctor/pairs/plan.hpp"
#include "tools/doctor/pairs/timing.hpp"

namespace hbmwire::tools::doctor {

/// The devices between whose memories and that of `memory` an engine may copy: those of its type.
[[nodiscard]] std::vector<PlanMemory> engine_targets(const PlanMemory& memory, const Plan& plan);

/// One memory on a machine without a NIC, in a process of its own: to it from the host and back,
/// and to itself and other devices by its engine. Says what NicRuns says.
struct EngineRuns {
  PlanMemory memory;
  std::vector<PlanMemory> targets;  ///< engine_targets()
  Timing timing;

  void operator()(Voice& voice, int cancel_fd) const;
};

}  // namespace hbmwire::tools::doctor
