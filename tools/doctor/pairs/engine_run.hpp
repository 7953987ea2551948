// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/pairs/pair.hpp"
#include "tools/doctor/pairs/plan.hpp"
#include "tools/doctor/pairs/timing.hpp"

namespace hbmwire::tools::doctor {

/// The devices whose engine may copy to or from `memory`: those of its type.
[[nodiscard]] std::vector<PlanMemory> engine_targets(const PlanMemory& memory, const Plan& plan);

/// Tests one memory on a machine without a NIC, in a process of its own: copies from the host and
/// back, to itself, and to other devices by their engine. Sends {"pair": ...} for each, or
/// {"memory_error": ...}.
struct EngineRuns {
  PlanMemory memory;
  std::vector<PlanMemory> targets;  ///< engine_targets()
  Timing timing;

  void operator()(Voice& voice, int cancel_fd) const;
};

}  // namespace hbmwire::tools::doctor
