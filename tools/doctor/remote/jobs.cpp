// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/jobs.hpp"

#include <algorithm>

#include "tools/doctor/checks/finding.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/evidence/archive.hpp"
#include "tools/doctor/evidence/live_machine.hpp"
#include "tools/doctor/evidence/recorder.hpp"
#include "tools/doctor/evidence/scrub.hpp"
#include "tools/doctor/remote/differences.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::size_t kMostEach = 64;      // NICs and memories of one machine
constexpr std::size_t kLongestName = 128;  // of one of them

std::string name_at(const Json& json, std::string_view key) {
  return wire::printable(text_at(json, key).substr(0, kLongestName));
}

/// What the agent says that has this member. Errors: it fails, hangs, or ends without.
Outcome<Json> told(Agent& agent, const char* what, const Patience& patience) {
  while (true) {
    HBMWIRE_TRY_ASSIGN(const Heard heard, agent.hear(Deadline::after(patience.step + kAnswerSlack),
                                                     patience.cancel_fd));
    if (heard.kind == Heard::Kind::interrupted) {
      return tl::make_unexpected(
          Failure(make_error(Errc::cancelled, Stage::complete, "interrupt")));
    }
    if (heard.kind != Heard::Kind::value) {
      const bool hung = heard.kind == Heard::Kind::silent;
      const std::string how = agent.end();
      return fail(fmt::format("probe: looking for NICs and accelerators: {}; look at `dmesg`",
                              hung          ? "no answer in time"
                              : how.empty() ? "the process that did it ended"
                                            : "the process that did it was " + how));
    }
    const Json& failure = member(heard.value, "failure");
    if (!failure.is_null())
      return fail(wire::printable(text_at(failure, "text")), kExitUnavailable);
    const Json& value = member(heard.value, what);
    if (!value.is_null()) return value;
  }
}

PlanNic nic_in(const Json& json) {
  return {.name = name_at(json, "name"),
          .address = name_at(json, "address"),
          .refusal = error_from_json(member(json, "refusal"))};
}

PlanMemory memory_in(const Json& json) {
  const std::string label = text_at(json, "label");
  PlanMemory memory{.device = name_at(json, "device"),
                    .label = name_at(json, "label"),
                    .name = name_at(json, "name"),
                    .address = name_at(json, "address"),
                    .near = name_at(json, "near")};
  for (const MemoryType each : kAllocatedTypes) {
    if (label.starts_with(to_string(each))) memory.type = each;
  }
  return memory;
}

template <class T>
std::vector<T> list_of(const Json& json, T (*item)(const Json&)) {
  std::vector<T> all;
  if (!json.is_array()) return all;
  for (std::size_t i = 0; i < std::min(json.size(), kMostEach); ++i) all.push_back(item(json[i]));
  return all;
}

}  // namespace

Child::Body plan_job(const Selection& selection) {
  return [selection](Voice& voice, int) { tell_plan(selection, voice); };
}

Child::Body machine_job(bool scrub) {
  return [scrub](Voice& voice, int) {
    LiveMachine machine;
    Recorder recorder(machine);
    (void)run_checks(recorder);  // asks all that they judge
    ask_for_differences(recorder);
    const Record& record = recorder.record();
    const Record told = scrub ? scrubbed(record, names_of_this_machine()) : record;
    voice.say({{"machine", Json::parse(archive_text(told))}});
  };
}

Outcome<Plan> plan_of(Agent& agent, const Patience& patience) {
  HBMWIRE_TRY_ASSIGN(const Json json, told(agent, "plan", patience));
  const Json& memcpy = member(json, "memcpy");
  return Plan{.nics = list_of(member(json, "nics"), nic_in),
              .memories = list_of(member(json, "memories"), memory_in),
              .no_nics = error_from_json(member(json, "no_nics")),
              .memcpy_bytes_per_second = memcpy.is_number() ? memcpy.get<double>() : 0};
}

Outcome<Record> machine_of(Agent& agent, const Patience& patience) {
  HBMWIRE_TRY_ASSIGN(const Json json, told(agent, "machine", patience));
  return record_of(json.dump(), "the other machine");
}

}  // namespace hbmwire::tools::doctor
