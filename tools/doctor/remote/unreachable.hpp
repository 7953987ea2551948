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
    no_route,     ///< a router has no route to the network
    no_host,      ///< a router found no machine with that address
    no_port,      ///< no program listens there, or a firewall pretends so
    prohibited,   ///< a firewall, or a rule of a router
    too_big,      ///< the packet is larger than the next link allows
  };

  Cause cause = Cause::no_host;
  std::string by;               ///< the sender of the message: a router, or the destination
  std::uint32_t mtu_bytes = 0;  ///< for too_big: the MTU of the next link; 0 if unknown

  bool operator==(const Unreachable&) const = default;
};

/// Makes the kernel keep ICMP messages for take_unreachable(): IP_RECVERR (ip(7), ipv6(7)). If that
/// fails, reports are only less exact.
void keep_unreachable(int fd, const IpAddress& destination) noexcept;

/// Takes the first message that the kernel has kept, and drops the others. `own`: the socket's own
/// address, since the kernel sends itself a message when ARP or ND fails. Needs no privilege.
[[nodiscard]] std::optional<Unreachable> take_unreachable(int fd, const std::string& own);

/// The address that getsockname(2) returns; empty if it fails.
[[nodiscard]] std::string own_host(int fd);

}  // namespace hbmwire::tools::doctor
