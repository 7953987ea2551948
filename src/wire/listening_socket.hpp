// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/host_port.hpp"

namespace hbmwire::wire {

/// A non-blocking TCP socket that peers connect to.
struct ListeningSocket {
  Fd socket;
  std::uint16_t port = 0;
  /// Closed to take, and to refuse, a peer for whom no other descriptor is left. None: it was used,
  /// and there has been no other since.
  Fd reserve;
};

/// Where to listen: `address` may have brackets, and a port of its own where `port` is 0 or the
/// same. Empty: all addresses. Errors: Errc::invalid_argument, Stage::connect.
Result<HostPort> listening_place(const std::string& address, std::uint16_t port);

/// `address` (a name, IPv4 or IPv6, as listening_place() takes it; empty: all of this machine) and
/// `port` (0: a free one). Errors: Stage::connect.
Result<ListeningSocket> listen_on(const std::string& address, std::uint16_t port);

struct AcceptedSocket {
  Fd socket;         ///< non-blocking; -1: none
  std::string peer;  ///< "10.0.0.1:40000", "[fe80::1]:40000"
  /// The shortage (EMFILE, ENFILE, ENOBUFS, ENOMEM) for which there is no socket, or only the
  /// reserve's: its peer is to be told, and the socket closed, before keep_reserve().
  std::optional<Error> shortage;
};

/// Takes a connection that waits. Out of descriptors, it is taken by the reserve.
AcceptedSocket accept_one(ListeningSocket& listening);

/// Opens the reserve anew, if it was used. False: there is still no descriptor for it.
bool keep_reserve(ListeningSocket& listening) noexcept;

}  // namespace hbmwire::wire
