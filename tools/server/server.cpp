// SPDX-License-Identifier: MIT
#include "tools/server/server.hpp"

#include <algorithm>

#include "hbmwire/buffer.hpp"

#include "tools/common/finish.hpp"
#include "tools/common/job.hpp"
#include "tools/common/text.hpp"
#include "tools/server/exchange.hpp"
#include "tools/server/file.hpp"

namespace hbmwire::tools {
namespace {

using std::chrono::seconds;

// A connection that sends no greeting within this time is closed, so that the next one gets its
// turn.
constexpr seconds kGreetingPatience{5};
// A server that runs for months must not grow: --json shows only the last clients.
constexpr std::size_t kClientsShown = 100;

void add_client(Json& summary, Json client) {
  Json& clients = summary["clients"];
  if (clients.size() == kClientsShown) clients.erase(clients.begin());
  clients.push_back(std::move(client));
}

// `what` differs between the two programs; `option` sets it.
std::string refusal(const char* what, std::uint64_t server, std::uint64_t client,
                    const char* option) {
  return fmt::format(
      "connect: {} differ: the server has {} {}, the client {} {}: give both the same", what,
      option, server, option, client);
}

}  // namespace

Outcome<int> Server::run() {
  HBMWIRE_TRY_ASSIGN(auto listener, listen());
  HBMWIRE_TRY_ASSIGN(side_, open_local_side(options_.common, output_));
  summary_.update(to_json(*side_));
  summary_["clients"] = Json::array();
  HBMWIRE_TRY(output_.check());
  auto code = serve_clients(listener);
  summary_["clients_complete"] = complete_;
  summary_["clients_failed"] = failed_;
  side_.reset();
  return code;
}

// Called before the hardware is opened, which can take seconds, so that a port in use is found at
// once.
Outcome<wire::ControlListener> Server::listen() {
  HBMWIRE_TRY_ASSIGN(auto listener,
                     wire::ControlListener::listen(options_.bind, options_.common.port));
  summary_["port"] = listener.port();
  summary_["size_bytes"] = options_.common.size_bytes;
  output_.line("Port: {}", listener.port());
  output_.line("Buffer size: {} bytes", options_.common.size_bytes);
  return listener;
}

Outcome<int> Server::serve_clients(wire::ControlListener& listener) {
  announce(listener);
  while (true) {
    const Wait wait{std::chrono::hours(1), interrupt_.fd()};
    auto accepted = listener.accept(wait);
    if (!accepted && accepted.error().code == Errc::timed_out) continue;
    if (!accepted && accepted.error().code == Errc::cancelled) return interrupted();
    if (!accepted) return tl::make_unexpected(accepted.error());
    const bool complete = serve(std::move(*accepted));
    if (cut_short_) return interrupted();
    if (complete && !options_.keep) return wrong_ == 0 ? kExitOk : kExitFailed;
    announce(listener);
  }
}

void Server::announce(const wire::ControlListener& listener) {
  output_.notice(fmt::format("Waiting for client connection on port {}...", listener.port()));
}

// If a signal finds a server with --keep idle, its end is no failure.
Outcome<int> Server::interrupted() const {
  if (options_.keep && !cut_short_) return wrong_ == 0 ? kExitOk : kExitFailed;
  return Interrupt::exit_code();
}

// True if the client finished all its work, with right or wrong bytes.
bool Server::serve(wire::ControlListener::Accepted accepted) {
  const std::string peer = accepted.peer;
  const Wait greeting{kGreetingPatience, interrupt_.fd()};
  auto channel = wire::ControlChannel::accept(std::move(accepted.socket), peer, greeting);
  if (!channel) {
    count_failed(peer, channel.error());
    return false;
  }
  Session session(std::move(*channel),
                  {.patience = std::min(kGreetingPatience, options_.common.patience),
                   .cancel_fd = interrupt_.fd(),
                   .peer_role = "client"});
  auto report = serve_session(session);
  if (!report) {
    session.give_up(report.error());
    count_failed(peer, report.error());
    return false;
  }
  count_complete(*report);
  return true;
}

void Server::count_failed(const std::string& peer, const Failure& failure) {
  ++failed_;
  cut_short_ = failure.interrupted;
  output_.error(about_client(peer, failure));
  Json client{{"peer", peer}};
  add_error(client, failure);
  add_client(summary_, std::move(client));
}

void Server::count_complete(const Report& report) {
  ++complete_;
  print_summary(report, *side_, output_);
  Json client = to_json(report);
  if (!report.verified()) {
    ++wrong_;
    client["error"] = report.wrong_text();
    // The job itself printed wrong bytes of an exchange.
    if (report.file) output_.error(report.wrong_text());
  }
  add_client(summary_, std::move(client));
}

Outcome<Report> Server::serve_session(Session& session) {
  HBMWIRE_TRY_ASSIGN(const auto hello, session.expect<wire::Hello>());
  session.set_patience(options_.common.patience);
  HBMWIRE_TRY(check_hello(hello));
  HBMWIRE_TRY(session.send(
      wire::Welcome{.size_bytes = side_->layout.size_bytes, .memory = side_->memory_text()}));
  output_.line("✓ Client connected: {} (memory: {})", session.peer(),
               wire::printable(hello.memory));
  Report report{.peer = session.peer(), .peer_memory = hello.memory};
  Job job{*side_, session, output_, report, "client"};
  HBMWIRE_TRY(hello.job == wire::Hello::Job::file ? receive_file(job, hello, options_.save)
                                                  : serve_exchange(job, hello));
  return report;
}

Outcome<void> Server::check_hello(const wire::Hello& hello) const {
  if (hello.size_bytes != side_->layout.size_bytes) {
    return fail(refusal("the sizes", side_->layout.size_bytes, hello.size_bytes, "-s"));
  }
  if (hello.job == wire::Hello::Job::file) {
    if (options_.save.empty())
      return fail("connect: the server was started without --save DIR: it takes no files");
    if (!is_base_name(hello.file_name)) {
      return fail(fmt::format(
          "connect: the file name \"{}\" is refused: it must be a name without folders and "
          "control characters",
          wire::printable(hello.file_name)));
    }
    return {};
  }
  const auto wanted = options_.common.iterations;
  if (wanted && *wanted != hello.iterations) {
    return fail(refusal("the iterations", *wanted, hello.iterations, "-n"));
  }
  if (hello.iterations == 0)
    return fail("connect: the client wants no iteration: give it -n 1 or more");
  return {};
}

}  // namespace hbmwire::tools
