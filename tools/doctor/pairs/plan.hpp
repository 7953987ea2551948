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

/// The pairs that a user asks for.
struct Selection {
  std::vector<std::string> nics;       ///< "mlx5_0", "mlx5_0:2"; empty: all
  std::vector<MemoryChoice> memories;  ///< empty: all
};

/// A port of a NIC.
struct PlanNic {
  std::string name;                       ///< as Nic::open() takes it: "mlx5_0", or "mlx5_0:2"
  std::string address = {};               ///< on PCI; empty: not told
  std::optional<PairError> refusal = {};  ///< why it can't be tried
};

struct PlanMemory {
  MemoryType type = MemoryType::host;
  std::string device = {};  ///< as MemoryOptions::device; empty: host memory
  std::string label = {};   ///< "gaudi 0"
  std::string name = {};    ///< "gaudi2 0000:33:00.0"
  std::string address = {};
  std::string near =
      {};  ///< the NIC of the plan that is nearest to it and can be tried; empty: none
};

/// The memories and NICs of this machine that are tried with each other.
struct Plan {
  std::vector<PlanNic> nics;
  std::vector<PlanMemory> memories;  ///< host memory first
  std::optional<PairError> no_nics;
  double memcpy_bytes_per_second = 0;  ///< of emulated hardware: what its NICs can reach
};

/// A pair of which nothing is known yet.
[[nodiscard]] Pair pair_of(const PlanMemory& memory, const std::string& by,
                           const std::string& by_address = {});

/// Looks at the machine; opens no accelerator. Errors: a NIC or a device that was asked for is not
/// there.
[[nodiscard]] Outcome<Plan> make_plan(const Selection& selection);

/// make_plan(), in a process of its own: says {"plan": ...}, or {"failure": ...}.
void tell_plan(const Selection& selection, Voice& voice);

/// Between the process that looks and the one that goes by the plan, which may be another
/// machine's: names are printable. Errors: what is no such object; more than 256 NICs or memories.
[[nodiscard]] Json to_json(const Plan& plan);
[[nodiscard]] Outcome<Plan> plan_from_json(const Json& json);

}  // namespace hbmwire::tools::doctor
