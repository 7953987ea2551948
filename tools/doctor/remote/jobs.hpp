// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>

#include "tools/common/failure.hpp"
#include "tools/doctor/evidence/record.hpp"
#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/pairs/plan.hpp"
#include "tools/doctor/remote/agent.hpp"

/// The work of processes for a doctor that speaks with another one, besides AgentProcess, and its
/// results. Both sides are asked in the same way.
namespace hbmwire::tools::doctor {

/// Looks for memories and NICs, and says {"plan": ...} or {"failure": ...}.
[[nodiscard]] Child::Body plan_job(const Selection& selection);

/// Reads all that checks and differences() ask, and says {"machine": ARCHIVE}. `scrub`: without
/// what identifies the machine.
[[nodiscard]] Child::Body machine_job(bool scrub);

/// Whom a job is done for, and how long to wait for its answer.
struct Patience {
  std::string whose;  ///< "here", or the name of the other machine: errors begin with it
  std::chrono::milliseconds step{10'000};
  int cancel_fd = -1;
};

/// The plan that comes of plan_job(), which may be a stranger's. Errors: the job's own;
/// interrupted; the process hangs or ended; the conversation has ended.
Outcome<Plan> plan_of(Agent& agent, const Patience& patience);

/// The machine that comes of machine_job(). Errors: as plan_of().
Outcome<Record> machine_of(Agent& agent, const Patience& patience);

}  // namespace hbmwire::tools::doctor
