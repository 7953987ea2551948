// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/doctor/remote/ip_address.hpp"

namespace hbmwire::tools::doctor {

/// An ICMP message "destination unreachable" (RFC 792, RFC 4443), or "packet too big", that came
/// back for a packet of a socket.
struct Unreachable {
  /// The obstacle between the packet and its destination.
  enum class Cause : std::uint8_t {
    no_neighbor,  ///< this machine: the next hop does not answer ARP or ND
    no_route,     ///< a router knows no way to the network
    no_host,      ///< a router found no machine of that address
    no_port,      ///< no program listens there, or a firewall says so
    prohibited,   ///< a firewall, or a router's rule
    too_big,      ///< the packet is larger than the next link takes
  };

  Cause cause = Cause::no_host;
  std::string by;               ///< the address that said so: a router's, or the destination's
  std::uint32_t mtu_bytes = 0;  ///< of too_big: what the next link takes; 0: not told

  bool operator==(const Unreachable&) const = default;
};

/// Lets the kernel keep ICMP messages for take_unreachable(): IP_RECVERR (ip(7), ipv6(7)). That it
/// can't only makes a report less exact.
void keep_unreachable(int fd, const IpAddress& destination) noexcept;

/// The first message that the kernel has kept, and drops the others. `own`: the socket's own
/// address, since the kernel sends itself a message where ARP or ND fails. Needs no right.
[[nodiscard]] std::optional<Unreachable> take_unreachable(int fd, const std::string& own);

/// The address that getsockname(2) gives; empty without one.
[[nodiscard]] std::string own_host(int fd);

}  // namespace hbmwire::tools::doctor
