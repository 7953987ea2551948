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

/// Waits until `fd` is ready for `events` (poll(2)). `what`: the wait, as errors call it. Errors:
/// Errc::timed_out, Errc::cancelled.
Result<void> wait_for(int fd, short events, const Wait& wait, const char* what,
                      std::string_view peer);

/// Sends all of `data`, or returns an error. `fd` must be non-blocking.
Result<void> send_all(int fd, std::span<const std::byte> data, const Wait& wait,
                      std::string_view peer);

/// Receives exactly `data.size()` bytes, or returns an error; an orderly end is Errc::peer_failed.
Result<void> receive_all(int fd, std::span<std::byte> data, const Wait& wait,
                         std::string_view peer);

/// Switches off delays, and makes the kernel notice within seconds that the peer's host is gone
/// (tcp(7)).
Result<void> tune(int fd, std::string_view peer);

/// Marks all that a connected TCP socket sends: IP_TOS or IPV6_TCLASS, depending on its family
/// (ip(7), ipv6(7)). The kernel keeps the lower two bits, which belong to ECN.
Result<void> set_traffic_class(int fd, std::uint8_t traffic_class, std::string_view peer);

}  // namespace hbmwire::wire
