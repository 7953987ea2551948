// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/jobs.hpp"

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

/// The first value from the agent that has this member. Errors: the agent fails, hangs, or ends
/// without such a value.
Outcome<Json> told(Agent& agent, const char* what, const Patience& patience) {
  const Deadline until = Deadline::after(patience.step + kAnswerSlack);
  while (true) {
    HBMWIRE_TRY_ASSIGN(const Heard heard, agent.hear(until, patience.cancel_fd));
    if (heard.kind == Heard::Kind::interrupted) return tl::make_unexpected(interrupted_failure());
    if (heard.kind != Heard::Kind::value) {
      const bool hangs = heard.kind == Heard::Kind::silent;
      const std::string job = fmt::format("the {} of {}", what, patience.whose);
      return fail(no_answer("probe", job, hangs, patience.step, agent.end()).text);
    }
    const Json& failure = member(heard.value, "failure");
    if (!failure.is_null()) {
      return fail(fmt::format("{}: {}", patience.whose, wire::printable(text_at(failure, "text"))),
                  kExitUnavailable);
    }
    const Json& value = member(heard.value, what);
    if (!value.is_null()) return value;
  }
}

}  // namespace

Child::Body plan_job(const Selection& selection) {
  return [selection](Voice& voice, int) { tell_plan(selection, voice); };
}

Child::Body machine_job(bool scrub) {
  return [scrub](Voice& voice, int) {
    LiveMachine machine;
    Recorder recorder(machine);
    (void)run_checks(recorder);  // asks everything that the checks judge
    ask_for_differences(recorder);
    const Record& record = recorder.record();
    const Record told = scrub ? scrubbed(record, names_of_this_machine()) : record;
    voice.say({{"machine", Json::parse(archive_text(told))}});
  };
}

Outcome<Plan> plan_of(Agent& agent, const Patience& patience) {
  HBMWIRE_TRY_ASSIGN(const Json json, told(agent, "plan", patience));
  return plan_from_json(json);
}

Outcome<Record> machine_of(Agent& agent, const Patience& patience) {
  HBMWIRE_TRY_ASSIGN(const Json json, told(agent, "machine", patience));
  return record_of(json.dump(), patience.whose);
}

}  // namespace hbmwire::tools::doctor
