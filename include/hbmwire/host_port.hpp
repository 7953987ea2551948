// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"

namespace hbmwire {

/// A place that TCP reaches, as Endpoint::connect() and the tools take it as text.
struct HostPort {
  std::string host;        ///< a name, an IPv4 or an IPv6 address, the latter without brackets
  std::uint16_t port = 0;  ///< of TCP

  bool operator==(const HostPort&) const = default;
};

/// Splits "node2:7000", "10.0.0.2:7000", "[::1]:7000", "[fe80::1%eth0]:7000". Each may have
/// "tcp://" before it and then "/" behind it. With `default_port` the port may be missing, and an
/// IPv6 address without a port needs no brackets. Does not look the host up. Errors:
/// Errc::invalid_argument, Stage::connect, the text (cut) as subject. Threads: any. Source: RFC
/// 3986 section 3.2.2 (brackets), RFC 4007 section 11 (scope).
[[nodiscard]] HBMWIRE_API Result<HostPort> split_host_port(
    std::string_view text, std::optional<std::uint16_t> default_port = {});

/// The text of a HostPort, as split_host_port() takes it: "host:port", an IPv6 address in brackets.
/// Throws std::bad_alloc.
[[nodiscard]] HBMWIRE_API std::string join_host_port(std::string_view host, std::uint16_t port);

}  // namespace hbmwire
