// SPDX-License-Identifier: MIT
#include <optional>
#include <random>

#include "hbmwire/buffer.hpp"

#include "tools/client/exchange.hpp"
#include "tools/client/file.hpp"
#include "tools/common/command_line.hpp"
#include "tools/common/finish.hpp"
#include "tools/common/interrupt.hpp"
#include <CLI/CLI.hpp>

namespace hbmwire::tools {
namespace {

struct ClientOptions {
  CommonOptions common;
  std::string host;
  std::string file;  // empty: an exchange
};

// Any failure may take at most 10 s, and a server that does not answer is given up well before
// that.
constexpr std::chrono::seconds kConnectPatience{8};

class Client {
 public:
  Client(const ClientOptions& options, Output& output, const Interrupt& interrupt)
      : options_(options), output_(output), interrupt_(interrupt) {}

  Outcome<int> run() {
    // Opened first, so that a wrong name is found before the hardware is opened.
    std::optional<SourceFile> source;
    if (!options_.file.empty()) {
      HBMWIRE_TRY_ASSIGN(source, SourceFile::open(options_.file));
    }
    summary_["server"] = server();
    summary_["size_bytes"] = options_.common.size_bytes;
    output_.line("Server: {}", server());
    output_.line("Buffer size: {} bytes", options_.common.size_bytes);
    HBMWIRE_TRY_ASSIGN(auto side, open_local_side(options_.common, output_));
    summary_.update(to_json(side));
    HBMWIRE_TRY(output_.check());
    HBMWIRE_TRY_ASSIGN(auto channel, connect());
    Session session(std::move(channel), {.patience = options_.common.patience,
                                         .cancel_fd = interrupt_.fd(),
                                         .peer_role = "server"});
    const auto report = work(session, side, source ? &*source : nullptr);
    if (report) return conclude(*report, side);
    session.give_up(report.error());
    return tl::make_unexpected(report.error());
  }

  [[nodiscard]] const Json& summary() const noexcept { return summary_; }

 private:
  [[nodiscard]] std::string server() const {
    return join_host_port(options_.host, options_.common.port);
  }

  Outcome<wire::ControlChannel> connect() {
    output_.line("Connecting to server {}...", server());
    const auto patience = std::min(kConnectPatience, options_.common.patience);
    auto channel = wire::ControlChannel::connect(options_.host, options_.common.port,
                                                 Wait{patience, interrupt_.fd()});
    if (channel) return std::move(*channel);
    return tl::make_unexpected(not_reached(
        channel.error(), "start `hbmwire server` there first, and give both the same -p"));
  }

  [[nodiscard]] wire::Hello make_hello(const LocalSide& side, const SourceFile* source) const {
    wire::Hello hello;
    hello.size_bytes = options_.common.size_bytes;
    hello.iterations = options_.common.iterations.value_or(kDefaultIterations);
    hello.seed = std::random_device()();
    hello.memory = side.memory_text();
    if (source != nullptr) {
      hello.job = wire::Hello::Job::file;
      hello.iterations = 0;
      hello.file_bytes = source->size_bytes();
      hello.file_name = source->name();
    }
    return hello;
  }

  Outcome<Report> work(Session& session, LocalSide& side, SourceFile* source) {
    const wire::Hello hello = make_hello(side, source);
    HBMWIRE_TRY(session.send(hello));
    HBMWIRE_TRY_ASSIGN(const auto welcome, session.expect<wire::Welcome>());
    if (welcome.size_bytes != hello.size_bytes) {
      return fail(fmt::format(
          "connect: the sizes differ: the server has -s {}, the client -s {}: give both the same",
          welcome.size_bytes, hello.size_bytes));
    }
    output_.line("✓ Connected to server (memory: {})", wire::printable(welcome.memory));
    Report report{.peer = session.peer(), .peer_memory = welcome.memory};
    Job job{side, session, output_, report, "server"};
    HBMWIRE_TRY(source != nullptr ? send_file(job, *source) : run_exchange(job, hello));
    return report;
  }

  int conclude(const Report& report, const LocalSide& side) {
    print_summary(report, side, output_);
    summary_.update(to_json(report));
    if (report.verified()) return kExitOk;
    summary_["error"] = report.wrong_text();
    // The job itself printed wrong bytes of an exchange.
    if (report.file) output_.error(report.wrong_text());
    return kExitFailed;
  }

  const ClientOptions& options_;
  Output& output_;
  const Interrupt& interrupt_;
  Json summary_ = Json::object();
};

}  // namespace

int run_client(int argc, char** argv) {
  const std::string program = argv[0];
  ClientOptions options;
  CLI::App app(
      "Exchanges data with a server by RDMA between device memories, and verifies every byte; or "
      "sends it a file.",
      program);
  app.add_option("HOST", options.host,
                 "Where the server runs: a name or an address, its port behind it if wanted")
      ->required()
      ->option_text(" ")
      ->check([](const std::string& host) { return host.empty() ? "it is empty" : ""; }, "");
  add_common_options(app, options.common);
  app.add_option("--file", options.file, "Send this file instead of test patterns")
      ->option_text("FILE");
  app.footer("\nExample\n  node2$ hbmwire server\n  node1$ hbmwire client node2\n");
  if (const auto code = parse_command_line(app, program, argc, argv)) return *code;
  Output output(program, options.common.output_mode());
  if (const auto mistake = contradiction_in(options.common)) return usage_error(output, *mistake);
  if (!options.file.empty() && options.common.iterations) {
    return usage_error(output,
                       "-n counts exchanges, and --file sends a file once; leave one of them out");
  }
  const auto place = place_of(options.host, options.common.port, *app.get_option("--port"));
  if (!place) return usage_error(output, place.error().text);
  options.host = place->host;
  options.common.port = place->port;
  if (options.common.port == 0)
    return usage_error(output, "-p 0: a client needs the server's port, which is 1 to 65535");
  auto interrupt = Interrupt::create();
  if (!interrupt) return finish(output, interrupt.error(), Json::object());
  if (const auto good = output.check(); !good) return finish(output, good.error(), Json::object());
  print_headline(output, "RDMA DMA-buf Client");
  Client client(options, output, *interrupt);
  const auto code = client.run();
  if (!code) return finish(output, code.error(), client.summary());
  output.line("Client shutdown complete");
  return finish(output, *code, client.summary());
}

}  // namespace hbmwire::tools
