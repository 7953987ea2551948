// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/link_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/pairs/timing.hpp"

namespace hbmwire::tools::doctor {
namespace {

const PlanNic* nic_of(const Plan& plan, const std::string& name) {
  const auto found = std::ranges::find(plan.nics, name, &PlanNic::name);
  return found == plan.nics.end() ? nullptr : &*found;
}

LinkEnd end_of(const Plan& plan, const PlanMemory& memory, const std::string& nic) {
  const PlanNic* const found = nic_of(plan, nic);
  return {.memory = memory.label,
          .device = memory.name,
          .device_address = memory.address,
          .nic = nic,
          .nic_address = found == nullptr ? std::string() : found->address};
}

PairError error_about(const char* step, Errc code, std::string text) {
  return {
      .step = step, .code = std::string(to_string(code)), .hint = "none", .text = std::move(text)};
}

/// The nearest NIC; if none can be tried, the first one, so the pair shows why that one cannot.
std::string near_nic(const Plan& plan, const PlanMemory& memory) {
  return memory.near.empty() ? plan.nics.front().name : memory.near;
}

}  // namespace

LinkRunner::LinkRunner(PairSide& here, PairSide& there, LinkRunOptions options, Progress* progress)
    : here_(here),
      there_(there),
      options_(std::move(options)),
      progress_(progress),
      budget_(Deadline::after(kRunBudget)) {
  options_.emulated =
      here.plan.memcpy_bytes_per_second > 0 || there.plan.memcpy_bytes_per_second > 0;
}

Outcome<void> LinkRunner::run() {
  const Plan& ours = here_.plan;
  const Plan& theirs = there_.plan;
  if (ours.nics.empty() || theirs.nics.empty() || ours.memories.empty() || theirs.memories.empty())
    return {};
  for (const PlanNic& here : ours.nics) {
    for (const PlanNic& there : theirs.nics) {
      HBMWIRE_TRY_ASSIGN(LinkPair pair, run_one(ours.memories.front(), here.name,
                                                theirs.memories.front(), there.name));
      pairs_.nics.push_back(std::move(pair));
    }
  }
  for (const PlanMemory& here : ours.memories) {
    for (const PlanMemory& there : theirs.memories) {
      HBMWIRE_TRY_ASSIGN(LinkPair pair,
                         run_one(here, near_nic(ours, here), there, near_nic(theirs, there)));
      pairs_.memories.push_back(std::move(pair));
    }
  }
  return {};
}

std::optional<PairError> LinkRunner::why_left_out(const LinkPair& pair) const {
  for (const Side side : {Side::here, Side::there}) {
    const LinkEnd& end = pair.end(side);
    const auto hangs = hangs_.find({side, end.nic});
    if (hangs == hangs_.end() || hangs->second < kMostHangs) continue;
    return error_about("open", Errc::timed_out,
                       fmt::format("open: {}: not tried, since it has not answered with others; "
                                   "try it alone (-d {})",
                                   end.nic, end.nic));
  }
  if (!budget_.passed()) return std::nullopt;
  return error_about("open", Errc::timed_out,
                     fmt::format("open: {}: not tried, since other pairs took all of the time; try "
                                 "fewer of them (-d, --memory)",
                                 pair.here.nic));
}

Outcome<LinkPair> LinkRunner::run_one(const PlanMemory& ours, const std::string& our_nic,
                                      const PlanMemory& theirs, const std::string& their_nic) {
  LinkPair pair{.here = end_of(here_.plan, ours, our_nic),
                .there = end_of(there_.plan, theirs, their_nic)};
  ++done_;
  const auto before = std::ranges::find_if(
      pairs_.nics, [&](const LinkPair& each) { return is_same_pair(each, pair); });
  if (before != pairs_.nics.end()) return *before;
  for (const Side side : {Side::here, Side::there}) {
    const PlanNic* const nic = nic_of(side_at(side).plan, pair.end(side).nic);
    if (nic == nullptr || !nic->refusal) continue;
    pair.refuse(*nic->refusal, side);
    pair.outcome = PairOutcome::refused;  // also for a busy NIC, unlike refuse()
    return pair;
  }
  if (const auto reason = why_left_out(pair)) {
    pair.outcome = PairOutcome::untried;
    pair.error = reason;
    return pair;
  }
  return run_by_agents(std::move(pair), ours, theirs);
}

Outcome<LinkPair> LinkRunner::run_by_agents(LinkPair pair, const PlanMemory& ours,
                                            const PlanMemory& theirs) {
  std::array<Memory*, 2> memories{};
  for (const Side side : {Side::here, Side::there}) {
    HBMWIRE_TRY_ASSIGN(Memory* const memory, memory_of(side, side == Side::here ? ours : theirs));
    memories[side == Side::here ? 0 : 1] = memory;
    if (!memory->refusal) continue;
    pair.refuse(*memory->refusal, side);
    return pair;
  }
  const std::string name = fmt::format("{} {} - {} {}", pair.here.memory, pair.here.nic,
                                       pair.there.memory, pair.there.nic);
  options_.on_step = [this, &name](const char* step) {
    if (progress_ != nullptr) progress_->step(done_ - 1, fmt::format("{}: {}", name, step));
  };
  HBMWIRE_TRY_ASSIGN(pair,
                     run_link(std::move(pair), *memories[0]->agent, *memories[1]->agent, options_));
  for (const Side side : {Side::here, Side::there}) {
    if (memories[side == Side::here ? 0 : 1]->agent->is_over()) note_lost(side, pair);
  }
  return pair;
}

/// The agent starts again for the next pair. The memory is blamed only if its agent was lost with
/// several NICs.
void LinkRunner::note_lost(Side side, const LinkPair& pair) {
  const LinkEnd& end = pair.end(side);
  Memory& memory = memories_[{side, end.memory}];
  memory.agent.reset();
  ++hangs_[{side, end.nic}];
  memory.lost_with.insert(end.nic);
  if (memory.lost_with.size() >= kMostHangs) memory.refusal = pair.error;
}

Outcome<LinkRunner::Memory*> LinkRunner::memory_of(Side side, const PlanMemory& memory) {
  Memory& opened = memories_[{side, memory.label}];
  if (!opened.agent && !opened.refusal) HBMWIRE_TRY(open(side_at(side), memory, opened));
  return &opened;
}

Outcome<void> LinkRunner::open(PairSide& at, const PlanMemory& memory, Memory& opened) {
  HBMWIRE_TRY_ASSIGN(opened.agent, at.start(memory));
  HBMWIRE_TRY_ASSIGN(
      const Heard heard,
      opened.agent->hear(Deadline::after(options_.step + kAnswerSlack), options_.cancel_fd));
  if (heard.kind == Heard::Kind::interrupted) return tl::make_unexpected(interrupted_failure());
  if (heard.kind == Heard::Kind::value) {
    opened.refusal = error_from_json(member(heard.value, "error"));
  } else {
    const bool hangs = heard.kind == Heard::Kind::silent;
    opened.refusal = no_answer("open", memory.label, hangs, options_.step, opened.agent->end());
  }
  if (opened.refusal) opened.agent.reset();
  return {};
}

}  // namespace hbmwire::tools::doctor
