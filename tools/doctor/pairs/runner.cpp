// SPDX-License-Identifier: MIT
#include "tools/doctor/pairs/runner.hpp"

#include <algorithm>
#include <map>

#include "hbmwire/path.hpp"

#include "tools/common/progress.hpp"
#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/pairs/engine_run.hpp"
#include "tools/doctor/pairs/nic_run.hpp"
#include "tools/doctor/pairs/peer_run.hpp"

namespace hbmwire::tools::doctor {
namespace {

using std::chrono::milliseconds;

// A timeout within the child should come first, because its message says more.
constexpr auto kSlack = milliseconds(1000);

/// The values that a child sent, and how the child ended.
struct Talk {
  enum class End { done, broke_off, silent, interrupted };

  End end = End::broke_off;
  std::vector<Pair> pairs;
  std::optional<PairError> memory_error;
  std::optional<Plan> plan;
  std::optional<Failure> failure;
  std::uint16_t port = 0;
  std::string by;  // the NIC that it worked on when it ended; empty: the memory itself
  std::string step = "open";
  std::string how_it_ended;
};

Failure failure_of(const Json& json) {
  Failure failure(json.at("text").get<std::string>(), json.at("exit_code").get<int>());
  failure.hint = hint_from_name(json.at("hint").get<std::string>()).value_or(Hint::none);
  return failure;
}

class Runner {
 public:
  Runner(const PairOptions& options, const Interrupt& interrupt, Output& output)
      : options_(options), interrupt_(interrupt), output_(output) {}

  Outcome<Pairs> run();

 private:
  /// Lists NICs and memories into plan_, in a process.
  Outcome<void> look();
  Outcome<void> run_memory(const PlanMemory& memory);
  Outcome<void> run_others(const PlanMemory& memory);
  Outcome<void> run_nics(const PlanMemory& memory, std::vector<PlanNic> nics);
  Outcome<void> run_engines(const PlanMemory& memory);
  Outcome<void> run_peers(const PlanMemory& memory, Path path);

  Outcome<Talk> talk(Child& child, const std::string& label, bool until_port = false);
  /// Stores a value that a child sent into `talk`.
  void take(const Json& value, const std::string& label, Talk& talk);
  /// The error of a child that ended before its work was done.
  PairError broken(const Talk& talk, const std::string& memory) const;
  void add(Pair pair);
  void add_error(Pair pair, const PairError& error);
  [[nodiscard]] std::optional<PairError> why_left_out(const PlanNic& nic);
  bool leave_out(const PlanMemory& memory, const PlanNic& nic);

  [[nodiscard]] Timing timing() const {
    return {.step = options_.step,
            .measure = measured_time(plan_.nics.size() * plan_.memories.size()),
            .budget = budget_};
  }

  const PairOptions& options_;
  const Interrupt& interrupt_;
  Output& output_;
  Plan plan_;
  Pairs pairs_;
  std::map<std::string, unsigned> hangs_;  // number of hangs for each NIC
  std::optional<Progress> progress_;
  Deadline budget_ = Deadline::after(kRunBudget);
};

void Runner::take(const Json& value, const std::string& label, Talk& talk) {
  if (!value.is_object()) return;
  if (value.contains("step")) {
    talk.by = value.at("by").get<std::string>();
    talk.step = value.at("step").get<std::string>();
    if (progress_) {
      progress_->step(
          pairs_.pairs.size() + talk.pairs.size(),
          fmt::format("{}{}{}: {}", label, talk.by.empty() ? "" : " - ", talk.by, talk.step));
    }
  } else if (value.contains("pair")) {
    if (auto pair = pair_from_json(value.at("pair"))) talk.pairs.push_back(std::move(*pair));
  } else if (value.contains("memory_error")) {
    talk.memory_error = error_from_json(value.at("memory_error"));
  } else if (value.contains("plan")) {
    if (auto plan = plan_from_json(value.at("plan"))) {
      talk.plan = std::move(*plan);
    } else {
      talk.failure = plan.error();
    }
  } else if (value.contains("failure")) {
    talk.failure = failure_of(value.at("failure"));
  } else if (value.contains("port")) {
    talk.port = value.at("port").get<std::uint16_t>();
  } else if (value.contains("done")) {
    talk.end = Talk::End::done;
  }
}

/// Listens until the child ends or has sent its port. Errors: interrupted.
Outcome<Talk> Runner::talk(Child& child, const std::string& label, bool until_port) {
  Talk talk;
  while (!until_port || talk.port == 0) {
    auto heard = child.listen(Deadline::after(options_.step + kSlack), interrupt_.fd());
    using Kind = Heard::Kind;
    if (heard.kind == Kind::interrupted) {
      child.end();
      return tl::make_unexpected(interrupted_failure());
    }
    if (heard.kind == Kind::value) {
      take(heard.value, label, talk);
      continue;
    }
    if (heard.kind == Kind::silent) talk.end = Talk::End::silent;
    talk.how_it_ended = child.end();
    break;
  }
  return talk;
}

PairError Runner::broken(const Talk& talk, const std::string& memory) const {
  // The failure is the child's as a whole, not that of the memory or the NIC.
  if (talk.failure) {
    return {.step = talk.step,
            .code = std::string(to_string(Errc::exhausted)),
            .hint = std::string(to_string(talk.failure->hint)),
            .text = talk.failure->text};
  }
  const bool hung = talk.end == Talk::End::silent;
  const std::string what = talk.by.empty() ? memory : fmt::format("{}: {}", talk.by, memory);
  return no_answer(talk.step, what, hung, options_.step, talk.how_it_ended);
}

void Runner::add(Pair pair) { pairs_.pairs.push_back(std::move(pair)); }

void Runner::add_error(Pair pair, const PairError& error) {
  pair.outcome = error.code == to_string(Errc::busy) ? PairOutcome::untried : PairOutcome::refused;
  pair.error = error;
  add(std::move(pair));
}

Outcome<void> Runner::look() {
  const auto body = [this](Voice& voice, int) { tell_plan(options_.selection, voice); };
  HBMWIRE_TRY_ASSIGN(Child child, Child::start(body));
  HBMWIRE_TRY_ASSIGN(Talk heard, talk(child, "this machine"));
  if (heard.failure) return tl::make_unexpected(*heard.failure);
  if (heard.plan) {
    plan_ = std::move(*heard.plan);
  } else {
    pairs_.no_look = broken(heard, "looking for NICs and accelerators");
  }
  return {};
}

Outcome<void> Runner::run_nics(const PlanMemory& memory, std::vector<PlanNic> nics) {
  while (!nics.empty()) {
    HBMWIRE_TRY_ASSIGN(Child child, Child::start(NicRuns{
                                        .memory = memory,
                                        .nics = nics,
                                        .timing = timing(),
                                        .memcpy_bytes_per_second = plan_.memcpy_bytes_per_second}));
    HBMWIRE_TRY_ASSIGN(Talk heard, talk(child, memory.label));
    const std::size_t done = std::min(heard.pairs.size(), nics.size());
    for (std::size_t i = 0; i < done; ++i) add(std::move(heard.pairs[i]));
    nics.erase(nics.begin(), nics.begin() + static_cast<std::ptrdiff_t>(done));
    if (nics.empty()) break;
    if (heard.end == Talk::End::done && !heard.memory_error) {  // the time budget is used up
      // The child had the same budget, so leave_out() finds it used up.
      for (const PlanNic& nic : nics) leave_out(memory, nic);
      break;
    }
    const PairError error = heard.memory_error ? *heard.memory_error : broken(heard, memory.label);
    const bool of_memory = heard.memory_error || heard.by.empty();
    if (of_memory) {
      for (const PlanNic& nic : nics) add_error(pair_of(memory, nic.name, nic.address), error);
      break;
    }
    if (heard.end == Talk::End::silent) ++hangs_[nics.front().name];
    Pair pair = pair_of(memory, nics.front().name, nics.front().address);
    pair.error = error;
    add(std::move(pair));
    nics.erase(nics.begin());  // another process takes the NICs that remain
  }
  return {};
}

Outcome<void> Runner::run_engines(const PlanMemory& memory) {
  HBMWIRE_TRY_ASSIGN(Child child, Child::start(EngineRuns{.memory = memory,
                                                          .targets = engine_targets(memory, plan_),
                                                          .timing = timing()}));
  HBMWIRE_TRY_ASSIGN(Talk heard, talk(child, memory.label));
  for (Pair& pair : heard.pairs) add(std::move(pair));
  if (heard.end == Talk::End::done && !heard.memory_error) return {};
  const PairError error = heard.memory_error ? *heard.memory_error : broken(heard, memory.label);
  add_error(pair_of(memory, heard.by.empty() ? "host" : heard.by), error);
  return {};
}

Outcome<void> Runner::run_peers(const PlanMemory& memory, Path path) {
  HBMWIRE_TRY_ASSIGN(Child server, Child::start(PeerServer{memory, path, timing()}));
  HBMWIRE_TRY_ASSIGN(const Talk served, talk(server, memory.label, /*until_port=*/true));
  const std::string by = path == Path::ipc ? "ipc" : "tcp";
  if (served.port == 0) {
    add_error(pair_of(memory, by),
              served.memory_error ? *served.memory_error : broken(served, memory.label));
    return {};
  }
  HBMWIRE_TRY_ASSIGN(Child client, Child::start(PeerClient{memory, path, timing(), served.port}));
  HBMWIRE_TRY_ASSIGN(Talk heard, talk(client, memory.label));
  if (heard.pairs.size() == 1) {
    add(std::move(heard.pairs.front()));
  } else {
    add_error(pair_of(memory, by), broken(heard, memory.label));
  }
  return {};
}

std::optional<PairError> Runner::why_left_out(const PlanNic& nic) {
  const bool hung = hangs_[nic.name] >= kMostHangs;
  if (nic.refusal) return nic.refusal;
  if (!hung && !budget_.passed()) return std::nullopt;
  return PairError{
      .step = "open",
      .code = std::string(to_string(Errc::timed_out)),
      .hint = "none",
      .text = fmt::format(
          "open: {}: not tried, since {}; try it alone (-d {})", nic.name,
          hung ? "it has not answered with other memories" : "other pairs took all of the time",
          nic.name)};
}

/// Skips a NIC if there is a reason, which the pair then shows. Returns whether it was skipped.
bool Runner::leave_out(const PlanMemory& memory, const PlanNic& nic) {
  const auto reason = why_left_out(nic);
  if (!reason) return false;
  Pair pair = pair_of(memory, nic.name, nic.address);
  pair.outcome = nic.refusal ? PairOutcome::refused : PairOutcome::untried;
  pair.error = reason;
  add(std::move(pair));
  return true;
}

/// Runs the pairs without a NIC.
Outcome<void> Runner::run_others(const PlanMemory& memory) {
  HBMWIRE_TRY(run_engines(memory));
  if (pairs_.pairs.empty()) return {};
  const Pair& last = pairs_.pairs.back();
  // run_engines() names "host" if the memory itself can't be opened.
  if (last.error && last.by == "host") return {};
  if (is_shared_by_ipc(memory.type)) HBMWIRE_TRY(run_peers(memory, Path::ipc));
  return run_peers(memory, Path::tcp);
}

Outcome<void> Runner::run_memory(const PlanMemory& memory) {
  if (plan_.nics.empty()) return run_others(memory);
  const std::size_t before = pairs_.pairs.size();
  std::vector<PlanNic> nics;
  for (const PlanNic& nic : plan_.nics) {
    if (!leave_out(memory, nic)) nics.push_back(nic);
  }
  HBMWIRE_TRY(run_nics(memory, std::move(nics)));
  // The report lists the pairs in the order of the NICs, not in that of the runs.
  const auto place = [this](const Pair& pair) {
    return std::ranges::find(plan_.nics, pair.by, &PlanNic::name) - plan_.nics.begin();
  };
  const auto first = pairs_.pairs.begin() + static_cast<std::ptrdiff_t>(before);
  std::ranges::stable_sort(first, pairs_.pairs.end(), {}, place);
  return {};
}

Outcome<Pairs> Runner::run() {
  pairs_.emulated = is_emulated();
  progress_.emplace("looking", 1, output_.shows_progress());
  HBMWIRE_TRY(look());
  pairs_.no_nics = plan_.no_nics;
  pairs_.nics = plan_.nics.size();
  const auto on_device = [](const PlanMemory& memory) { return memory.type != MemoryType::host; };
  pairs_.accelerators = static_cast<std::size_t>(std::ranges::count_if(plan_.memories, on_device));
  const std::size_t columns = std::max<std::size_t>(plan_.nics.size(), 1);
  progress_->clear();
  progress_.emplace("pairs", plan_.memories.size() * columns, output_.shows_progress());
  for (const PlanMemory& memory : plan_.memories) HBMWIRE_TRY(run_memory(memory));
  progress_->clear();
  return std::move(pairs_);
}

}  // namespace

Outcome<Pairs> run_pairs(const PairOptions& options, const Interrupt& interrupt, Output& output) {
  return Runner(options, interrupt, output).run();
}

}  // namespace hbmwire::tools::doctor
