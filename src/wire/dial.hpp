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

/// Resolves `host` (name, IPv4, IPv6) and tries each of its addresses (AddressWalk says for how
/// long): a tuned, non-blocking TCP socket. `peer`: for errors.
Result<Fd> dial(const std::string& host, std::uint16_t port, const std::string& peer,
                const Wait& wait);

/// The same in two steps, which wait for nothing: a socket that is on its way, and, once it can be
/// written to, whether it arrived. `segment_bytes`: of TCP, in both directions, at most
/// (TCP_MAXSEG, tcp(7)).
Result<Fd> start_dial(const addrinfo& address, const std::string& peer,
                      std::optional<std::uint32_t> segment_bytes = {});
Result<void> finish_dial(int fd, const std::string& peer);

}  // namespace hbmwire::wire
