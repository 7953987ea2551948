// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/two_machine_run.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "tools/common/progress.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/evidence/packed_bytes.hpp"
#include "tools/doctor/pairs/timing.hpp"
#include "tools/doctor/remote/agent_process.hpp"
#include "tools/doctor/remote/conversation.hpp"
#include "tools/doctor/remote/datagrams.hpp"
#include "tools/doctor/remote/jobs.hpp"
#include "tools/doctor/remote/link_runner.hpp"
#include "tools/doctor/remote/way.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr auto kConnectWithin = std::chrono::seconds(10);

constexpr auto kWayWithin = std::chrono::seconds(6);

/// The addresses where the other doctor answers datagrams.
struct Echo {
  Nonce nonce{};
  std::uint16_t port = 0;
  std::vector<IpAddress> addresses;
};

std::optional<Echo> echo_in(const Json& json) {
  const auto nonce = from_base64(text_at(json, "nonce"));
  const auto port = number_at(json, "port");
  Echo echo;
  if (!nonce || nonce->size() != echo.nonce.size() || !port || *port == 0 || *port > 0xffff)
    return std::nullopt;
  std::ranges::copy(*nonce, echo.nonce.begin());
  echo.port = static_cast<std::uint16_t>(*port);
  std::vector<std::string> texts;
  const Json& addresses = member(json, "addresses");
  for (std::size_t i = 0; addresses.is_array() && i < std::min(addresses.size(), kMostAddresses);
       ++i) {
    if (addresses[i].is_string()) texts.push_back(addresses[i].get<std::string>());
  }
  echo.addresses = ip_addresses(texts);
  return echo;
}

void add(std::vector<Finding>& findings, const std::vector<Finding>& more) {
  findings.insert(findings.end(), more.begin(), more.end());
}

class TwoMachineRun {
 public:
  TwoMachineRun(const HostPort& place, const PairOptions& options, const Interrupt& interrupt,
                Output& output)
      : place_(place), options_(options), interrupt_(interrupt), output_(output) {}

  Outcome<TwoMachines> run();

 private:
  Outcome<bool> try_way();
  Outcome<void> talk(Conversation& conversation);
  Outcome<void> ask_for_facts(Conversation& conversation);
  Outcome<void> try_between(Conversation& conversation, Plan ours, Plan theirs);
  Outcome<void> try_sizes(Conversation& conversation);
  Outcome<std::optional<Echo>> ask_for_echo(Conversation& conversation);
  Outcome<void> try_pairs(Conversation& conversation, Plan ours, Plan theirs);
  Outcome<std::unique_ptr<Agent>> start_here(const Child::Body& body) const;
  Outcome<std::unique_ptr<Agent>> start_there(Conversation& conversation, const char* what,
                                              const std::string& name);

  [[nodiscard]] Patience patience(const std::string& whose) const {
    return {.whose = whose, .step = options_.step, .cancel_fd = interrupt_.fd()};
  }

  void step(const char* what) { progress_->step(0, what); }

  const HostPort& place_;
  const PairOptions& options_;
  const Interrupt& interrupt_;
  Output& output_;
  TwoMachines machines_;
  IpAddress address_;  // the reached address of the other machine
  std::optional<Progress> progress_;
  unsigned next_ = 1;  // number for the next agent of the other doctor
};

Outcome<TwoMachines> TwoMachineRun::run() {
  machines_.peer = place_.host;
  progress_.emplace("looking", 1, output_.shows_progress());
  HBMWIRE_TRY_ASSIGN(const bool reached, try_way());
  if (!reached) {
    progress_->clear();
    return std::move(machines_);
  }
  step("connecting");
  HBMWIRE_TRY_ASSIGN(ConversationContext context, ConversationContext::create());
  HBMWIRE_TRY_ASSIGN(
      Conversation conversation,
      Conversation::connect(context, address_.text(), {kConnectWithin, interrupt_.fd()}));
  const auto done = talk(conversation);
  progress_->clear();
  (void)conversation.say({{"bye", true}}, std::chrono::seconds(1));
  conversation.close();
  HBMWIRE_TRY(done);
  return std::move(machines_);
}

/// Whether TCP reaches one of the addresses.
Outcome<bool> TwoMachineRun::try_way() {
  step("the way there");
  HBMWIRE_TRY_ASSIGN(const TcpWay way,
                     try_name(place_.host, place_.port, {kConnectWithin, interrupt_.fd()}));
  machines_.way = findings_of(way);
  const IpAddress* const usable = way.usable();
  if (usable != nullptr) address_ = *usable;
  return usable != nullptr;
}

Outcome<std::unique_ptr<Agent>> TwoMachineRun::start_here(const Child::Body& body) const {
  HBMWIRE_TRY_ASSIGN(Child child, Child::start(body));
  return std::unique_ptr<Agent>(std::make_unique<LocalAgent>(std::move(child)));
}

Outcome<std::unique_ptr<Agent>> TwoMachineRun::start_there(Conversation& conversation,
                                                           const char* what,
                                                           const std::string& name) {
  auto agent = std::make_unique<RemoteAgent>(conversation, next_++);
  HBMWIRE_TRY(agent->start(what, name));
  return std::unique_ptr<Agent>(std::move(agent));
}

Outcome<void> TwoMachineRun::talk(Conversation& conversation) {
  step("looking for NICs and memories");
  HBMWIRE_TRY_ASSIGN(const auto our_look, start_here(plan_job(options_.selection)));
  HBMWIRE_TRY_ASSIGN(Plan ours, plan_of(*our_look, patience("here")));
  HBMWIRE_TRY_ASSIGN(const auto their_look, start_there(conversation, "job", "plan"));
  HBMWIRE_TRY_ASSIGN(Plan theirs, plan_of(*their_look, patience(place_.host)));
  machines_.here.emplace(Machine{.facts = std::nullopt, .no_nics = ours.no_nics});
  machines_.there.emplace(Machine{.facts = std::nullopt, .no_nics = theirs.no_nics});
  auto done = try_between(conversation, std::move(ours), std::move(theirs));
  if (!done && done.error().interrupted) return done;
  // The report still shows everything learned until then.
  if (!done) machines_.lost = done.error().text;
  step("checks");
  HBMWIRE_TRY_ASSIGN(const auto our_facts, start_here(machine_job(/*scrub=*/false)));
  HBMWIRE_TRY_ASSIGN(machines_.here->facts, machine_of(*our_facts, patience("here")));
  if (!done) return {};
  done = ask_for_facts(conversation);
  if (!done && done.error().interrupted) return done;
  if (!done) machines_.lost = done.error().text;
  return {};
}

Outcome<void> TwoMachineRun::ask_for_facts(Conversation& conversation) {
  HBMWIRE_TRY_ASSIGN(const auto agent, start_there(conversation, "job", "machine"));
  HBMWIRE_TRY_ASSIGN(machines_.there->facts, machine_of(*agent, patience(place_.host)));
  return {};
}

Outcome<void> TwoMachineRun::try_between(Conversation& conversation, Plan ours, Plan theirs) {
  step("the size of packets");
  HBMWIRE_TRY(try_sizes(conversation));
  return try_pairs(conversation, std::move(ours), std::move(theirs));
}

/// Empty if the other doctor cannot answer datagrams.
Outcome<std::optional<Echo>> TwoMachineRun::ask_for_echo(Conversation& conversation) {
  HBMWIRE_TRY(conversation.say({{"echo", true}}, kConnectWithin));
  const Deadline until = Deadline::after(kConnectWithin);
  while (true) {
    const Heard heard = conversation.listen(until, interrupt_.fd());
    if (heard.kind == Heard::Kind::interrupted) return tl::make_unexpected(interrupted_failure());
    if (heard.kind == Heard::Kind::ended) return tl::make_unexpected(conversation.why_ended());
    if (heard.kind == Heard::Kind::silent) return std::optional<Echo>();
    // A message about the end of a finished process may come first.
    const Json& answer = member(heard.value, "echo");
    if (!answer.is_null()) return echo_in(answer);
  }
}

/// Probes all addresses of the other machine with datagrams as large as RoCE's packets.
Outcome<void> TwoMachineRun::try_sizes(Conversation& conversation) {
  HBMWIRE_TRY_ASSIGN(const auto echo, ask_for_echo(conversation));
  if (!echo) {
    machines_.way.push_back({.check = "way-udp",
                             .subject = place_.host,
                             .verdict = Verdict::unknown,
                             .source = "",
                             .found = "its doctor answers no datagrams",
                             .wanted = "a free UDP port there, of the number of its TCP port",
                             .remedy = ""});
    return {};
  }
  std::vector<IpAddress> others = echo->addresses;
  std::erase_if(others, [&](const IpAddress& each) { return each.host == address_.host; });
  HBMWIRE_TRY_ASSIGN(TcpWay way, try_addresses(std::move(others), {kWayWithin, interrupt_.fd()}));
  add(machines_.way, findings_of(way));
  std::vector<IpAddress> reached{address_};
  for (const TcpAttempt& attempt : way.attempts) {
    const bool answers =
        attempt.reach == TcpAttempt::Reach::reached || attempt.reach == TcpAttempt::Reach::refused;
    if (answers) reached.push_back(attempt.address);
  }
  HBMWIRE_TRY_ASSIGN(
      const auto datagrams,
      try_datagrams(std::move(reached), echo->port, echo->nonce, {kWayWithin, interrupt_.fd()}));
  for (const DatagramWay& each : datagrams) add(machines_.way, findings_of(each));
  return {};
}

Outcome<void> TwoMachineRun::try_pairs(Conversation& conversation, Plan ours, Plan theirs) {
  const std::size_t pairs =
      ours.nics.size() * theirs.nics.size() + ours.memories.size() * theirs.memories.size();
  PairSide here{.plan = std::move(ours), .start = {}};
  PairSide there{.plan = std::move(theirs), .start = {}};
  std::vector<std::string> nics;
  for (const PlanNic& nic : here.plan.nics) nics.push_back(nic.name);
  here.start = [&](const PlanMemory& memory) {
    return start_here(AgentProcess{.memory = memory,
                                   .nics = nics,
                                   .step = options_.step,
                                   .memcpy_bytes_per_second = here.plan.memcpy_bytes_per_second});
  };
  there.start = [&](const PlanMemory& memory) {
    return start_there(conversation, "memory", memory.label);
  };
  progress_->clear();
  progress_.emplace("pairs", pairs, output_.shows_progress());
  LinkRunner runner(
      here, there,
      {.step = options_.step, .measure = measured_time(pairs), .cancel_fd = interrupt_.fd()},
      &*progress_);
  auto done = runner.run();
  machines_.pairs = std::move(runner.pairs());
  return done;
}

}  // namespace

Outcome<TwoMachines> run_two_machines(const HostPort& place, const PairOptions& options,
                                      const Interrupt& interrupt, Output& output) {
  return TwoMachineRun(place, options, interrupt, output).run();
}

}  // namespace hbmwire::tools::doctor
