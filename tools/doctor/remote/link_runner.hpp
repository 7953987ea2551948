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

/// A machine, as the one that goes through the pairs sees it.
struct PairSide {
  Plan plan;
  /// Starts an agent for a memory of the plan.
  std::function<Outcome<std::unique_ptr<Agent>>(const PlanMemory& memory)> start;
};

/// Goes through all pairs of two machines: each NIC of one with each of the other by one memory of
/// each, and then each memory with each by the NICs that are nearest to them. A memory is opened
/// once, in a process of its own, and given back at the end. What hangs or ends is a failure of its
/// pair, and left alone the second time.
class LinkRunner {
 public:
  /// `progress` may be null.
  LinkRunner(PairSide& here, PairSide& there, LinkRunOptions options, Progress* progress);

  /// Errors: interrupted; the conversation has ended. pairs() has those before.
  Outcome<void> run();

  [[nodiscard]] LinkPairs& pairs() noexcept { return pairs_; }

 private:
  struct Memory {
    std::unique_ptr<Agent> agent;
    std::optional<PairError> refusal;  // why it can't be had
    std::set<std::string> lost_with;   // NICs with which its process hung or ended
  };

  Outcome<LinkPair> run_one(const PlanMemory& ours, const std::string& our_nic,
                            const PlanMemory& theirs, const std::string& their_nic);
  Outcome<LinkPair> run_by_agents(LinkPair pair, const PlanMemory& ours, const PlanMemory& theirs);
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
  std::map<std::pair<Side, std::string>, unsigned> hangs_;  // of NICs
  LinkPairs pairs_;
  std::size_t done_ = 0;
  Deadline budget_;
};

}  // namespace hbmwire::tools::doctor
