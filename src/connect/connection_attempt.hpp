// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/endpoint.hpp"

#include "endpoint/endpoint_state.hpp"
#include "wire/handshake.hpp"

namespace hbmwire::detail {

/// Whether an accepting end takes the peer that says this hello (EndpointOptions::hello).
using Admits = std::function<bool(std::span<const std::byte>)>;

/// One handshake, driven by its worker's progress(). No thread waits for it: its caller looks
/// whether it is over().
class ConnectionAttempt {
 public:
  ConnectionAttempt(const ConnectionAttempt&) = delete;
  ConnectionAttempt& operator=(const ConnectionAttempt&) = delete;
  virtual ~ConnectionAttempt();

  /// Whether it has ended, with or without an endpoint.
  [[nodiscard]] bool over() const noexcept { return over_; }

  /// Whether it is over, and the peer has been told everything.
  [[nodiscard]] bool silent() const noexcept { return silent_; }

  /// The endpoint, which belongs to the worker, or why there is none. Only when it is over.
  Result<std::shared_ptr<EndpointState>> take();

  /// Ends the handshake, since it takes too long.
  virtual void give_up() noexcept = 0;

  /// The error of a passed deadline: names the thing that the handshake waits for.
  [[nodiscard]] virtual Error timed_out() const noexcept = 0;

  /// Tells the endpoint's watch that the connection is not idle: the peer's silence is no failure
  /// before the handshake is over.
  virtual void look_after() noexcept;

  [[nodiscard]] const std::string& peer() const noexcept { return handshake_.peer(); }

  /// The hello of a peer that was admitted; empty before.
  [[nodiscard]] std::span<const std::byte> admitted() const noexcept {
    if (!connected_) return {};
    return handshake_.theirs().hello;
  }

  /// Asked on the accepting side before an endpoint is made. A peer that is not admitted is told
  /// that there is no room, and may try again.
  void ask_before(const Admits& admits) noexcept { admits_ = &admits; }

  /// When the peer last said something; before it has, when this began.
  [[nodiscard]] WorkerState::Clock::time_point heard() const noexcept { return heard_; }

  /// The peer has sent something.
  void note_word() noexcept { heard_ = WorkerState::Clock::now(); }

  /// Whether the peer has sent bytes that were not read yet.
  [[nodiscard]] virtual bool has_unread() const noexcept { return false; }

  const WorkerState::Clock::time_point began = WorkerState::Clock::now();

  /// The reason to refuse the peer, once it has shown that it is an endpoint.
  std::optional<Error> shortage;

 protected:
  ConnectionAttempt(const std::shared_ptr<WorkerState>& worker, wire::Handshake handshake,
                    EndpointOptions options);

  /// The connecting side has the peer's greeting, and makes its offer.
  void on_greeting();

  /// The peer's offer has come: wires the endpoint up. The accepting side makes the endpoint now,
  /// unless it has one.
  void on_offer();

  /// Makes the endpoint, or refuses the peer. Returns whether there is an endpoint. `nics`: the
  /// first for the lanes, the others for rails.
  bool make_endpoint(const Result<std::vector<WorkerNic*>>& nics);

  std::weak_ptr<WorkerState> worker_;
  WorkerState* raw_worker_;  // the worker whose thread calls
  wire::Handshake handshake_;
  EndpointOptions options_;
  bool accepting_ = false;
  const Admits* admits_ = nullptr;  // the listener's; null: each peer is admitted
  std::shared_ptr<EndpointState> endpoint_;
  std::optional<Error> error_;
  WorkerState::Clock::time_point heard_ = began;
  bool connected_ = false;  // queue pairs of the endpoint are wired up
  bool over_ = false;
  bool silent_ = false;
};

/// `options` completed by the settings, for a handshake. Errors: Stage::configure: the file of the
/// pre-shared key; a hello that is too long.
Result<EndpointOptions> complete(const Context& context, const EndpointOptions& options);

}  // namespace hbmwire::detail
