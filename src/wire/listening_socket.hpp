// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/host_port.hpp"

namespace hbmwire::wire {

/// A non-blocking TCP socket to which peers connect.
struct ListeningSocket {
  Fd socket;
  std::uint16_t port = 0;
  /// A spare descriptor. It is closed to accept and refuse a peer for which no other descriptor is
  /// left. Empty: it was used, and could not be opened again since.
  Fd reserve;
};

/// The place to listen on. `address` may have brackets, and its own port if `port` is 0 or the
/// same. Empty: all addresses. Errors: Errc::invalid_argument, Stage::connect.
Result<HostPort> listening_place(const std::string& address, std::uint16_t port);

/// Listens on `address` (a name, IPv4 or IPv6, as listening_place() takes it; empty: all addresses
/// of this machine) and `port` (0: a free one). Errors: Stage::connect.
Result<ListeningSocket> listen_on(const std::string& address, std::uint16_t port);

/// The result of accept_one().
struct AcceptedSocket {
  Fd socket;         ///< non-blocking; -1: none
  std::string peer;  ///< "10.0.0.1:40000", "[fe80::1]:40000"
  /// A shortage (EMFILE, ENFILE, ENOBUFS, ENOMEM). There is no socket then, or one that took the
  /// place of the reserve: tell its peer, close it, and then call keep_reserve().
  std::optional<Error> shortage;
};

/// Accepts a waiting connection. Without descriptors, uses the reserve.
AcceptedSocket accept_one(ListeningSocket& listening);

/// Opens the reserve again if it was used. Returns false if there is still no descriptor for it.
bool keep_reserve(ListeningSocket& listening) noexcept;

}  // namespace hbmwire::wire
