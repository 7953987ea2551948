// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "hbmwire/fd.hpp"

#include "connect/connection_attempt.hpp"
#include "endpoint/sockets.hpp"
#include "wire/listening_socket.hpp"
#include "wire/resolve.hpp"

namespace hbmwire::detail {

/// A handshake over TCP.
class TcpAttempt final : public ConnectionAttempt, public SocketOwner {
 public:
  /// Connects to one of `addresses`, which `where` names. Errors: Stage::connect.
  static Result<std::unique_ptr<TcpAttempt>> dial(const std::shared_ptr<WorkerState>& worker,
                                                  std::string_view where,
                                                  wire::AddressWalk addresses,
                                                  const EndpointOptions& options);

  /// Begins the handshake with a peer that has connected to a listener of this worker.
  static Result<std::unique_ptr<TcpAttempt>> welcome(const std::shared_ptr<WorkerState>& worker,
                                                     wire::AcceptedSocket socket,
                                                     const EndpointOptions& options);
  ~TcpAttempt() override;
  TcpAttempt(const TcpAttempt&) = delete;
  TcpAttempt& operator=(const TcpAttempt&) = delete;

  void on_socket() noexcept override;
  void look_after() noexcept override;
  void give_up() noexcept override;
  [[nodiscard]] Error timed_out() const noexcept override;
  [[nodiscard]] bool has_unread() const noexcept override;

 private:
  using ConnectionAttempt::ConnectionAttempt;

  Result<void> dial_next();
  void finish_dial();
  void leave_address(const Error& why);
  void advance();
  bool send() noexcept;
  bool receive();
  void finish();
  void refuse(wire::Refusal why, const Error& error) noexcept;
  void end(const Error& why) noexcept;
  void linger() noexcept;
  void watch() noexcept;

  wire::AddressWalk addresses_;
  Fd socket_;
  std::uint32_t events_ = 0;  // the watched events; 0: none yet
  std::size_t dropped_ = 0;
  bool dialing_ = false;
};

}  // namespace hbmwire::detail
