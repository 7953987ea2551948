// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "tools/common/command.hpp"
#include "tools/common/command_line.hpp"
#include "tools/common/finish.hpp"
#include "tools/common/interrupt.hpp"
#include "tools/perf/all/command.hpp"
#include "tools/perf/all/options.hpp"
#include "tools/perf/between_ranks.hpp"
#include "tools/perf/measure.hpp"
#include "tools/perf/reporter.hpp"
#include "tools/wire/control_listener.hpp"

namespace hbmwire::tools {
namespace {

using namespace perf;

// Any failure may take at most 10 s. A silent server or client is given up well before that.
constexpr std::chrono::seconds kGreetingPatience{5};

/// One `hbmwire perf`: its command line, its settings, and its results.
struct Perf {
  const Options& options;
  const Interrupt& interrupt;
  Output& output;
  Observer& observer;
  RunResult& result;
  std::optional<wire::ControlListener> listener;

  Outcome<void> run() {
    // Reports a missing NIC before it waits for a client, or calls a server.
    HBMWIRE_TRY(probe_nic(options.side));
    return options.host.empty() ? serve() : ask();
  }

 private:
  [[nodiscard]] Session make_session(wire::ControlChannel channel, const char* peer_role) const {
    return {std::move(channel),
            {.patience = options.patience, .cancel_fd = interrupt.fd(), .peer_role = peer_role}};
  }

  Outcome<void> serve();
  Outcome<bool> serve_one(wire::ControlListener::Accepted accepted);
  Outcome<void> ask();
  Outcome<void> talk(Role role, Session& session, const PerfRequest& request);
};

Outcome<void> Perf::talk(Role role, Session& session, const PerfRequest& request) {
  auto done = run_test(options, role, session, request, observer, result);
  // Sends nothing if run_test() has told the peer already.
  if (!done) session.give_up(done.error());
  return done;
}

/// Waits for a client, and returns the result of its run. Reports port probes, strangers and
/// clients of another version, and continues.
Outcome<void> Perf::serve() {
  const bool given = listener.has_value();  // the caller has told its port already
  if (!given) {
    HBMWIRE_TRY_ASSIGN(listener, wire::ControlListener::listen(options.bind, options.port));
  }
  HBMWIRE_TRY(output.check());
  bool served = false;
  while (!served) {
    if (!given)
      output.notice(fmt::format("Waiting for client connection on port {}...", listener->port()));
    auto accepted = listener->accept({std::chrono::hours(1), interrupt.fd()});
    if (!accepted && accepted.error().code == Errc::timed_out) continue;
    if (!accepted) return tl::make_unexpected(accepted.error());
    HBMWIRE_TRY_ASSIGN(served, serve_one(std::move(*accepted)));
  }
  return {};
}

/// Runs the test with a client whose request is valid, and returns true. Reports any other peer.
Outcome<bool> Perf::serve_one(wire::ControlListener::Accepted accepted) {
  const auto report = [&](const Failure& why) -> Outcome<bool> {
    if (why.interrupted) return tl::make_unexpected(why);
    output.error(about_client(accepted.peer, why));
    return false;
  };
  auto channel = wire::ControlChannel::accept(std::move(accepted.socket), accepted.peer,
                                              {kGreetingPatience, interrupt.fd()});
  if (!channel) return report(channel.error());
  Session session = make_session(std::move(*channel), "client");
  session.set_patience(std::min(kGreetingPatience, options.patience));
  const auto request = hear_request(session);
  if (!request) {
    session.give_up(request.error());
    return report(request.error());
  }
  session.set_patience(options.patience);
  HBMWIRE_TRY(talk(Role::server, session, *request));
  return true;
}

Outcome<void> Perf::ask() {
  HBMWIRE_TRY(output.check());
  auto channel =
      wire::ControlChannel::connect(options.host, options.port, {options.patience, interrupt.fd()});
  if (!channel) {
    return tl::make_unexpected(
        not_reached(channel.error(),
                    "start `hbmwire perf` without HOST there first, and give both the same -p"));
  }
  Session session = make_session(std::move(*channel), "server");
  HBMWIRE_TRY(session.send(options.request));
  return talk(Role::client, session, options.request);
}

}  // namespace

int perf::measure(const Options& options, const std::string& program, const Interrupt& interrupt,
                  std::optional<wire::ControlListener> listener) {
  Output output(program, options.output_mode());
  Reporter reporter(output, options);
  if (const auto ready = reporter.prepare(); !ready)
    return finish(output, ready.error(), Json::object());
  RunResult result;
  auto done = Perf{options, interrupt, output, reporter, result, std::move(listener)}.run();
  if (done) done = reporter.conclude(result);
  Json summary = reporter.json(result);
  if (!done) return finish(output, done.error(), std::move(summary));
  return finish(output, kExitOk, std::move(summary));
}

int run_perf(int argc, char** argv) {
  if (all::is_asked_for(argc, argv)) return all::run_all(argc, argv);
  const std::string program = argv[0];
  Options options;
  if (const auto code = parse_options(program, argc, argv, options)) return *code;
  Output output(program, options.output_mode());
  if (options.ranks && !options.host.empty()) {
    return usage_error(output,
                       "--ranks has the group tell where the server is, and HOST tells it, too; "
                       "leave one of them out");
  }
  const auto interrupt = Interrupt::create();
  if (!interrupt) return finish(output, interrupt.error(), Json::object());
  if (options.ranks) return run_between_ranks(options, argc, argv, *interrupt);
  return measure(options, program, *interrupt, {});
}

}  // namespace hbmwire::tools
