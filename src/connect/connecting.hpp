// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "hbmwire/deadline.hpp"
#include "hbmwire/endpoint.hpp"
#include "hbmwire/host_port.hpp"

#include "connect/backoff.hpp"
#include "connect/connection_attempt.hpp"
#include "endpoint/sockets.hpp"
#include "endpoint/task.hpp"
#include "wire/resolve.hpp"

namespace hbmwire::detail {

/// Connects to a listener without blocking: looks up the name, then does a handshake. After a
/// refusal it pauses and begins again, if EndpointOptions::retry_connect asks for that. A worker
/// begins only a few of its connections at a time.
class Connecting final : public Task, private SocketOwner {
 public:
  /// `again`: this is a reconnect, which may begin with a pause. Errors: Stage::configure, connect.
  static Result<std::unique_ptr<Connecting>> start(const std::shared_ptr<WorkerState>& worker,
                                                   std::string_view where, const Deadline& until,
                                                   const EndpointOptions& options, bool again);
  ~Connecting() override;
  Connecting(const Connecting&) = delete;
  Connecting& operator=(const Connecting&) = delete;

  void look_after(WorkerState::Clock::time_point at) noexcept override;
  void give_up(const Error& why) noexcept override;

  /// The endpoint after success, once; then null.
  [[nodiscard]] std::shared_ptr<EndpointState> take() noexcept { return std::move(endpoint_); }

 private:
  Connecting(const std::shared_ptr<WorkerState>& worker, std::string_view where,
             const Deadline& until, EndpointOptions options);

  Result<void> begin(WorkerState::Clock::time_point at);
  Result<void> look_up(WorkerState::Clock::time_point at);
  Result<void> dial();
  void go_on(WorkerState::Clock::time_point at);
  void try_again(WorkerState::Clock::time_point at);
  void end(WorkerState::Clock::time_point at);
  void end_attempt() noexcept;
  void fail_for_good(const Error& why) noexcept;

  /// The error of a connection that is not over, with `code`: names the thing that it waits for.
  [[nodiscard]] Error unfinished(Errc code) const noexcept;
  void refused(const Error& why, WorkerState::Clock::time_point at) noexcept;
  void pause(WorkerState::Clock::time_point until) noexcept;
  void forget_name() noexcept;
  void on_socket() noexcept override;

  std::weak_ptr<WorkerState> weak_worker_;
  std::string where_;
  Deadline until_;
  EndpointOptions options_;
  Backoff backoff_;
  std::optional<WorkerState::Clock::time_point> pauses_until_;
  std::optional<wire::NameLookUp> name_;  // during the look-up
  bool name_watched_ = false;
  std::unique_ptr<ConnectionAttempt> attempt_;
  std::optional<Error> last_refusal_;
  std::shared_ptr<EndpointState> endpoint_;
};

}  // namespace hbmwire::detail
