// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "tools/common/command.hpp"
#include "tools/common/finish.hpp"
#include "tools/common/interrupt.hpp"
#include "tools/perf/reporter.hpp"

namespace hbmwire::tools {
namespace {

using namespace perf;

// A server that does not answer, and a stranger that says nothing, are given up well within 10 s.
constexpr std::chrono::seconds kGreetingPatience{5};

Outcome<void> talk(const Options& options, Role role, wire::ControlChannel channel,
                   const Interrupt& interrupt, Observer& observer, RunResult& result) {
  Session session(std::move(channel), {.patience = options.patience,
                                       .cancel_fd = interrupt.fd(),
                                       .peer_role = role == Role::client ? "server" : "client"});
  auto done = run_test(options, role, session, observer, result);
  if (!done) session.give_up(done.error());
  return done;
}

Outcome<void> serve(const Options& options, const Interrupt& interrupt, Output& output,
                    Observer& observer, RunResult& result) {
  HBMWIRE_TRY(probe_nic(options.side));
  HBMWIRE_TRY_ASSIGN(auto listener, wire::ControlListener::listen(options.bind, options.port));
  output.notice(fmt::format("Waiting for client connection on port {}...", listener.port()));
  while (true) {
    auto accepted = listener.accept(
        {.deadline = Deadline::after(std::chrono::hours(1)), .cancel_fd = interrupt.fd()});
    if (!accepted && accepted.error().code == Errc::timed_out) continue;
    if (!accepted) return tl::make_unexpected(accepted.error());
    auto channel = wire::ControlChannel::accept(
        std::move(accepted->socket), accepted->peer,
        {.deadline = Deadline::after(kGreetingPatience), .cancel_fd = interrupt.fd()});
    if (!channel) return tl::make_unexpected(channel.error());
    return talk(options, Role::server, std::move(*channel), interrupt, observer, result);
  }
}

Outcome<void> ask(const Options& options, const Interrupt& interrupt, Observer& observer,
                  RunResult& result) {
  HBMWIRE_TRY(probe_nic(options.side));
  HBMWIRE_TRY_ASSIGN(auto channel,
                     wire::ControlChannel::connect(options.host, options.port,
                                                   {.deadline = Deadline::after(options.patience),
                                                    .cancel_fd = interrupt.fd()}));
  return talk(options, Role::client, std::move(channel), interrupt, observer, result);
}

}  // namespace

int run_perf(int argc, char** argv) {
  const std::string program = argv[0];
  Options options;
  if (const auto code = parse_options(program, argc, argv, options)) return *code;
  Output output(program, options.json    ? Output::Mode::json
                         : options.quiet ? Output::Mode::quiet
                                         : Output::Mode::text);
  auto interrupt = Interrupt::create();
  if (!interrupt) return finish(output, interrupt.error(), Json::object());
  Reporter reporter(output, options);
  if (const auto ready = reporter.prepare(); !ready)
    return finish(output, ready.error(), Json::object());
  RunResult result;
  auto done = options.host.empty() ? serve(options, *interrupt, output, reporter, result)
                                   : ask(options, *interrupt, reporter, result);
  if (done) done = reporter.conclude(result);
  Json summary = reporter.json(result);
  if (!done) return finish(output, done.error(), std::move(summary));
  return finish(output, kExitOk, std::move(summary));
}

}  // namespace hbmwire::tools
