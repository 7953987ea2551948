// SPDX-License-Identifier: MIT
#pragma once

#include <netdb.h>

#include <cstdint>
#include <optional>
#include <string>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

namespace hbmwire::wire {

/// Resolves `host` (name, IPv4, IPv6), and tries its addresses one after the other (AddressWalk
/// gives the time for each). Returns a tuned, non-blocking TCP socket. `peer`: the name in errors.
Result<Fd> dial(const std::string& host, std::uint16_t port, const std::string& peer,
                const Wait& wait);

/// Dials one address in two steps that never wait. start_dial() returns a socket that is
/// connecting. Once it is writable, finish_dial() tells whether it is connected. A connection to
/// itself counts as refused. `segment_bytes`: the largest TCP segment in both directions
/// (TCP_MAXSEG, tcp(7)).
Result<Fd> start_dial(const addrinfo& address, const std::string& peer,
                      std::optional<std::uint32_t> segment_bytes = {});
Result<void> finish_dial(int fd, const std::string& peer);

}  // namespace hbmwire::wire
