// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

namespace hbmwire::wire {

/// Resolves `host` (name, IPv4, IPv6) and tries each of its addresses: a tuned, non-blocking TCP
/// socket. `peer`: for errors.
Result<Fd> dial(const std::string& host, std::uint16_t port, const std::string& peer,
                const Wait& wait);

}  // namespace hbmwire::wire
