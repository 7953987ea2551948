// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory.hpp"

#include "tools/common/memory_choice.hpp"
#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/pairs/pair.hpp"

namespace hbmwire::tools::doctor {

/// A port of a NIC.
struct PlanNic {
  std::string name;                       ///< as for Nic::open(): "mlx5_0", or "mlx5_0:2"
  std::string address = {};               ///< PCI address; empty if unknown
  std::optional<PairError> refusal = {};  ///< the reason why it cannot be tried
};

struct PlanMemory {
  MemoryType type = MemoryType::host;
  std::string device = {};  ///< as in MemoryOptions::device; empty for host memory
  std::string label = {};   ///< "gaudi 0"
  std::string name = {};    ///< "gaudi2 0000:33:00.0"
  std::string address = {};
  std::string near = {};  ///< the nearest NIC of the plan that can be tried; empty if there is none
};

/// The memories and NICs of this machine that are to be tried with each other.
struct Plan {
  std::vector<PlanNic> nics;
  std::vector<PlanMemory> memories;  ///< host memory comes first
  std::optional<PairError> no_nics;
  double memcpy_bytes_per_second = 0;  ///< for emulated hardware: the highest rate that its NICs
                                       ///< can reach
};

/// A pair without any results yet.
[[nodiscard]] Pair pair_of(const PlanMemory& memory, const std::string& by,
                           const std::string& by_address = {});

/// Lists the devices of the machine; opens no accelerator. Errors: a NIC or a device that the user
/// asked for does not exist.
[[nodiscard]] Outcome<Plan> make_plan(const Selection& selection);

/// Runs make_plan() in a process of its own. Sends {"plan": ...} or {"failure": ...}.
void tell_plan(const Selection& selection, Voice& voice);

/// Carries a plan from the process that makes it to the one that follows it. The plan may come from
/// another machine, so plan_from_json() makes its names printable. Errors: it is no such object; it
/// has more than 256 NICs or memories.
[[nodiscard]] Json to_json(const Plan& plan);
[[nodiscard]] Outcome<Plan> plan_from_json(const Json& json);

}  // namespace hbmwire::tools::doctor
