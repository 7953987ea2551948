// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "wire/endpoint_offer.hpp"

/// How two endpoints meet over TCP (docs/endpoint-protocol.md): a preamble of 16 bytes each way, an
/// offer each way, and a word each way that the queue pairs are ready.
namespace hbmwire::wire {

/// The TCP connection of one handshake. Errors carry Stage::connect and the peer's name.
class Handshake {
 public:
  enum class Side : std::uint8_t { connecting, accepting };

  /// `socket` is non-blocking.
  Handshake(Fd socket, std::string peer, Side side) noexcept
      : socket_(std::move(socket)), peer_(std::move(peer)), side_(side) {}

  /// Preambles, then offers; theirs. Errors: Errc::protocol (the peer is no endpoint, or of another
  /// version), Errc::peer_failed (it went away, or refused).
  Result<EndpointOffer> exchange(const EndpointOffer& own, const Wait& wait);

  /// Tells the peer that this end is ready, and waits until it is.
  Result<void> ready(const Wait& wait);

  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }

  /// The socket, which stays open as long as the endpoint: its end is the first sign of the peer's.
  [[nodiscard]] Fd take_socket() noexcept { return std::move(socket_); }

 private:
  Fd socket_;
  std::string peer_;
  Side side_;
};

/// Connects to "host:port" ("[::1]:7000"). Errors: Errc::invalid_argument (no such form).
Result<Handshake> dial_endpoint(std::string_view where, const Wait& wait);

}  // namespace hbmwire::wire
