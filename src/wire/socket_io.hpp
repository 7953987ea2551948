// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

namespace hbmwire::wire {

/// Waits until `fd` is ready for `events` (poll(2)). Errors: timed_out, cancelled.
Result<void> wait_for(int fd, short events, const Wait& wait, const char* what,
                      std::string_view peer);

/// All of `data` or an error. `fd` is non-blocking.
Result<void> send_all(int fd, std::span<const std::byte> data, const Wait& wait,
                      std::string_view peer);

/// Exactly `data.size()` bytes or an error; an orderly end is Errc::peer_failed.
Result<void> receive_all(int fd, std::span<std::byte> data, const Wait& wait,
                         std::string_view peer);

/// No delays, and a peer whose host is gone noticed within seconds (tcp(7)).
Result<void> tune(int fd, std::string_view peer);

/// Marks all that a connected TCP socket sends: IP_TOS or IPV6_TCLASS, by its family (ip(7),
/// ipv6(7)). The kernel keeps its own lower two bits, which are ECN's.
Result<void> set_traffic_class(int fd, std::uint8_t traffic_class, std::string_view peer);

}  // namespace hbmwire::wire
