// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/agent.hpp"

#include "tools/doctor/checks/reading.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::doctor {

Outcome<void> LocalAgent::tell(const Json& command) {
  // A failure is ignored here: an agent that does not read will not answer either, which listening
  // reports.
  (void)child_.tell(command);
  return {};
}

Outcome<Heard> LocalAgent::hear(const Deadline& until, int cancel_fd) {
  return child_.listen(until, cancel_fd);
}

std::string LocalAgent::end() {
  over_ = true;
  return child_.end();
}

Outcome<void> RemoteAgent::say(const Json& message) {
  // The other doctor reads messages even if its agents hang.
  return conversation_.say(message, std::chrono::seconds(10));
}

Outcome<void> RemoteAgent::start(const char* what, const std::string& name) {
  return say({{"start", number_}, {what, name}});
}

Outcome<void> RemoteAgent::tell(const Json& command) {
  return say({{"to", number_}, {"tell", command}});
}

Outcome<Heard> RemoteAgent::hear(const Deadline& until, int cancel_fd) {
  while (true) {
    if (over_) return Heard{.kind = Heard::Kind::ended};
    if (until.passed()) return Heard{.kind = Heard::Kind::silent};
    Heard heard = conversation_.listen(until, cancel_fd);
    if (heard.kind == Heard::Kind::ended) return tl::make_unexpected(conversation_.why_ended());
    if (heard.kind != Heard::Kind::value) return heard;
    if (const std::string over = text_at(heard.value, "over"); !over.empty()) {
      return fail(fmt::format("complete: the doctor of {} ends this: {}", conversation_.peer(),
                              wire::printable(over)));
    }
    if (number_at(heard.value, "from") != number_) continue;  // from an agent that was ended before
    const Json& said = member(heard.value, "said");
    if (!said.is_null()) return Heard{.kind = Heard::Kind::value, .value = said};
    over_ = true;
    how_ = wire::printable(text_at(heard.value, "ended"));
  }
}

std::string RemoteAgent::end() {
  if (!over_) (void)say({{"stop", number_}});
  over_ = true;
  return how_;
}

}  // namespace hbmwire::tools::doctor
