// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "hbmwire/endpoint.hpp"

#include "base/told_cause.hpp"
#include "connect/advertised.hpp"
#include "connect/cm_attempt.hpp"
#include "connect/tcp_attempt.hpp"
#include "wire/listening_socket.hpp"

namespace hbmwire::detail {

/// A port, its handshakes, and the endpoints that the program has not accepted yet. Both numbers
/// are bounded. Driven by its worker.
struct ListenerState final : SocketOwner, ByClock {
  static Result<std::shared_ptr<ListenerState>> create(const std::shared_ptr<WorkerState>& worker,
                                                       const ListenerOptions& options);

  explicit ListenerState(std::shared_ptr<WorkerState> worker_of) : worker(std::move(worker_of)) {}

  ListenerState(const ListenerState&) = delete;
  ListenerState& operator=(const ListenerState&) = delete;
  ~ListenerState() override;

  void on_socket() noexcept override;

  /// Collects handshakes that have ended, and ends those that take too long.
  void look_after(WorkerState::Clock::time_point now) noexcept override;

  /// The next connected endpoint; null if there is none.
  std::shared_ptr<EndpointState> next() noexcept;

  /// Whether a peer that was admitted with this hello is still shaking hands.
  [[nodiscard]] bool is_shaking_hands(std::span<const std::byte> hello) const noexcept;

  /// Takes one peer that has connected by TCP, or by the connection manager.
  void take_one();
  void take_request(const transport::CmEvent& request) noexcept;

  /// Whether one more peer may be taken. If there is no room, a handshake whose peer has been
  /// silent for too long is ended for it.
  bool make_room() noexcept;

  /// The handshake that has been silent for the longest time, if that was too long.
  [[nodiscard]] ConnectionAttempt* silent_one() const noexcept;
  Result<void> listen_by_cm();

  [[nodiscard]] std::uint16_t port() const noexcept {
    return managed ? managed->id.listening_port() : listening.port;
  }

  /// Ends a handshake, since another peer needs its place.
  void displace(ConnectionAttempt& attempt) noexcept;

  /// Keeps the endpoint of a handshake that is over for next(), or logs why there is none.
  void settle(ConnectionAttempt& attempt) noexcept;
  void let_part(std::unique_ptr<ConnectionAttempt> attempt) noexcept;

  /// Logs why a peer got no endpoint; only some lines a second.
  void tell(const Error& why, LogLevel level = LogLevel::warn) noexcept;

  /// Watches the port for peers, or stops watching it.
  void listen(bool on) noexcept;

  std::shared_ptr<WorkerState> worker;
  ListenerOptions options;
  Admits admits;  // empty: each peer is admitted
  wire::ListeningSocket listening;
  std::unique_ptr<CmPort> managed;  // in place of `listening`
  bool watched = false;
  WorkerState::Clock::time_point listen_again{};  // when to listen again after descriptors were
                                                  // used up
  ToldCause shortage;                             // the shortage because of which peers wait
  WorkerState::Clock::time_point told_since{};
  unsigned told = 0;  // lines that tell() has logged since `told_since`
  std::vector<std::unique_ptr<ConnectionAttempt>> attempts;
  std::vector<std::unique_ptr<ConnectionAttempt>> parting;  // refused peers that are being told so
  std::deque<std::shared_ptr<EndpointState>> ready;
  std::shared_ptr<AdvertisedRegions> advertised = std::make_shared<AdvertisedRegions>();
};

}  // namespace hbmwire::detail
