// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "hbmwire/deadline.hpp"

#include "tools/common/failure.hpp"
#include "tools/common/progress.hpp"
#include "tools/doctor/pairs/plan.hpp"
#include "tools/doctor/remote/agent.hpp"
#include "tools/doctor/remote/link_pair.hpp"
#include "tools/doctor/remote/link_run.hpp"

namespace hbmwire::tools::doctor {

/// A machine as the doctor that runs the pairs sees it.
struct PairSide {
  Plan plan;
  /// Starts an agent for a memory of the plan.
  std::function<Outcome<std::unique_ptr<Agent>>(const PlanMemory& memory)> start;
};

/// Runs all pairs of two machines: first each NIC of one with each NIC of the other, with one
/// memory of each machine; then each memory with each other one, by their nearest NICs. Each memory
/// is opened once, in a process of its own, and released at the end. An agent that hangs or ends
/// makes its pair fail; the second time it is skipped.
class LinkRunner {
 public:
  /// `progress` may be null.
  LinkRunner(PairSide& here, PairSide& there, LinkRunOptions options, Progress* progress);

  /// Errors: interrupted; the conversation has ended. pairs() then has the results so far.
  Outcome<void> run();

  [[nodiscard]] LinkPairs& pairs() noexcept { return pairs_; }

 private:
  struct Memory {
    std::unique_ptr<Agent> agent;
    std::optional<PairError> refusal;  // the reason why it cannot be opened
    std::set<std::string> lost_with;   // the NICs with which its process hung or ended
  };

  /// Runs a pair, unless it ran before or there is a reason not to try it.
  Outcome<LinkPair> run_one(const PlanMemory& ours, const std::string& our_nic,
                            const PlanMemory& theirs, const std::string& their_nic);
  Outcome<LinkPair> run_by_agents(LinkPair pair, const PlanMemory& ours, const PlanMemory& theirs);
  /// The memory with its agent, which is started if there is none.
  Outcome<Memory*> memory_of(Side side, const PlanMemory& memory);
  Outcome<void> open(PairSide& at, const PlanMemory& memory, Memory& opened);
  [[nodiscard]] std::optional<PairError> why_left_out(const LinkPair& pair) const;
  void note_lost(Side side, const LinkPair& pair);

  PairSide& side_at(Side side) { return side == Side::here ? here_ : there_; }

  PairSide& here_;
  PairSide& there_;
  LinkRunOptions options_;
  Progress* progress_;
  std::map<std::pair<Side, std::string>, Memory> memories_;
  std::map<std::pair<Side, std::string>, unsigned> hangs_;  // number of hangs for each NIC
  LinkPairs pairs_;
  std::size_t done_ = 0;
  Deadline budget_;
};

}  // namespace hbmwire::tools::doctor
