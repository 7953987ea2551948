// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "tools/common/failure.hpp"
#include "tools/doctor/evidence/record.hpp"
#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/pairs/plan.hpp"
#include "tools/doctor/remote/agent.hpp"

/// What a process does for a doctor that speaks with another one, besides AgentProcess, and what
/// comes of it. Both sides are asked in the same way.
namespace hbmwire::tools::doctor {

/// Looks for memories and NICs, and says {"plan": ...} or {"failure": ...}.
[[nodiscard]] Child::Body plan_job(const Selection& selection);

/// Reads all that checks and differences() ask, and says {"machine": ARCHIVE}. `scrub`: without
/// what identifies the machine.
[[nodiscard]] Child::Body machine_job(bool scrub);

/// How long to wait for an answer, and what ends the wait.
struct Patience {
  std::chrono::milliseconds step{10'000};
  int cancel_fd = -1;
};

/// The plan that comes of plan_job(), which may be a stranger's: at most 64 NICs and 64 memories,
/// of printable names. Errors: the job's own; interrupted; the process hangs or ended.
Outcome<Plan> plan_of(Agent& agent, const Patience& patience);

/// The machine that comes of machine_job(). Errors: as plan_of().
Outcome<Record> machine_of(Agent& agent, const Patience& patience);

}  // namespace hbmwire::tools::doctor
