// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>

#include "tools/common/failure.hpp"
#include "tools/doctor/evidence/record.hpp"
#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/pairs/plan.hpp"
#include "tools/doctor/remote/agent.hpp"

/// The jobs, besides AgentProcess, that a doctor runs for itself and for the doctor of another
/// machine, and their results. Both sides get the same questions.
namespace hbmwire::tools::doctor {

/// Lists memories and NICs. Sends {"plan": ...} or {"failure": ...}.
[[nodiscard]] Child::Body plan_job(const Selection& selection);

/// Reads everything that the checks and differences() ask. Sends {"machine": ARCHIVE}. With
/// `scrub`, without identifying data.
[[nodiscard]] Child::Body machine_job(bool scrub);

/// The machine that does a job, and the time to wait for its answer.
struct Patience {
  std::string whose;  ///< "here", or the name of the other machine: errors begin with it
  std::chrono::milliseconds step{10'000};
  int cancel_fd = -1;
};

/// The result of plan_job(), which may be foreign. Errors: those of the job; interrupted; the
/// process hangs or has ended; the conversation has ended.
Outcome<Plan> plan_of(Agent& agent, const Patience& patience);

/// The result of machine_job(). Errors: as for plan_of().
Outcome<Record> machine_of(Agent& agent, const Patience& patience);

}  // namespace hbmwire::tools::doctor
