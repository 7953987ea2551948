// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "tools/common/command.hpp"
#include "tools/common/finish.hpp"
#include "tools/common/interrupt.hpp"
#include "tools/perf/run_json.hpp"
#include "tools/perf/runner.hpp"

namespace hbmwire::tools {
namespace {

using namespace perf;

// A server that does not answer, and a stranger that says nothing, are given up well within 10 s.
constexpr std::chrono::seconds kGreetingPatience{5};

class Printer final : public Observer {
 public:
  explicit Printer(Output& output) : output_(output) {}

  void begins(const RunResult& run) override { output_.line("{}", run.title); }

  void measures(std::uint64_t /*size_bytes*/, std::size_t /*index*/,
                std::size_t /*count*/) override {}

  void measured(const RunResult& /*run*/, const Row& row) override {
    if (row.bandwidth) {
      output_.line(" {:<10} {:<10} {:.2f} {:.2f} MiB/s {:.6f} Mpps", row.size_bytes, row.iterations,
                   row.bandwidth->peak_bytes_per_second / 1048576,
                   row.bandwidth->average_bytes_per_second / 1048576,
                   row.bandwidth->messages_per_second / 1e6);
    }
    if (row.latency) {
      output_.line(" {:<10} {:<10} {:.3f} {:.3f} {:.3f} us", row.size_bytes, row.iterations,
                   row.latency->min_ns / 1e3, row.latency->typical_ns / 1e3,
                   row.latency->percentile_99_ns / 1e3);
    }
    if (row.verification.wanted) {
      output_.line("   verified {} slots, {} bytes, {} wrong, {} of {} arrivals {}",
                   row.verification.slots, row.verification.bytes, row.verification.wrong_bytes,
                   row.verification.arrivals, row.verification.expected_arrivals,
                   row.verification.problem);
    }
  }

 private:
  Output& output_;
};

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
  Printer printer(output);
  RunResult result;
  const auto done = options.host.empty() ? serve(options, *interrupt, output, printer, result)
                                         : ask(options, *interrupt, printer, result);
  const Json summary = to_json(result, {.gigabits = options.gigabits});
  if (!done) return finish(output, done.error(), summary);
  for (const Row& row : result.rows) {
    if (row.verification.wanted && !row.verification.passed())
      return finish(output, Failure(row.verification.problem), summary);
  }
  return finish(output, kExitOk, summary);
}

}  // namespace hbmwire::tools
