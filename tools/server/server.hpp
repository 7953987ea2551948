// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "tools/common/interrupt.hpp"
#include "tools/common/local_side.hpp"
#include "tools/common/report.hpp"
#include "tools/common/session.hpp"
#include "tools/server/options.hpp"
#include "tools/wire/control_listener.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools {

/// Serves clients one after another, with one buffer that is opened once.
class Server {
 public:
  Server(const ServerOptions& options, Output& output, const Interrupt& interrupt)
      : options_(options), output_(output), interrupt_(interrupt) {}

  /// Serves until the first complete client, or with --keep until a signal. Returns the exit code
  /// of docs/exit-codes.md.
  Outcome<int> run();

  /// The object of --json; complete after any end.
  [[nodiscard]] const Json& summary() const noexcept { return summary_; }

 private:
  Outcome<wire::ControlListener> listen();
  Outcome<int> serve_clients(wire::ControlListener& listener);
  void announce(const wire::ControlListener& listener);
  bool serve(wire::ControlListener::Accepted accepted);
  void count_failed(const std::string& peer, const Failure& failure);
  void count_complete(const Report& report);
  Outcome<Report> serve_session(Session& session);
  Outcome<void> check_hello(const wire::Hello& hello) const;
  [[nodiscard]] Outcome<int> interrupted() const;

  const ServerOptions& options_;
  Output& output_;
  const Interrupt& interrupt_;
  std::optional<LocalSide> side_;
  std::uint64_t complete_ = 0;
  std::uint64_t wrong_ = 0;  // clients with wrong bytes
  std::uint64_t failed_ = 0;
  bool cut_short_ = false;  // a signal came while a client was served
  Json summary_ = Json::object();
};

}  // namespace hbmwire::tools
