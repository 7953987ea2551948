// SPDX-License-Identifier: MIT
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/error.hpp"

/// The addresses of this machine, and which of them others are told.
namespace hbmwire::wire {

/// An IPv6 address; an IPv4 one as ::ffff:a.b.c.d.
using IpBytes = std::array<std::uint8_t, 16>;

/// A network interface that is up and has a link.
struct OwnInterface {
  std::uint32_t number = 0;  ///< if_nametoindex(3)
  bool loopback = false;
  std::vector<std::uint8_t> hardware =
      {};  ///< its link's address: of Ethernet 6 bytes, of IPoIB 20
  std::vector<IpBytes> addresses = {};
  /// The RDMA NIC that it is an interface of, as its user counts them; own_interfaces() knows none.
  std::optional<std::size_t> nic = {};
};

/// getifaddrs(3). Errors: Stage::connect.
Result<std::vector<OwnInterface>> own_interfaces();

/// Where a socket listens.
struct BoundTo {
  std::string host;  ///< empty: all addresses
  bool ipv6 = true;  ///< of all: those of IPv6, too
};

[[nodiscard]] BoundTo bound_to(const sockaddr& address);

/// Those that other machines may reach, most useful first: of NICs' interfaces before others, IPv4
/// before IPv6 and of that global addresses before unique local ones, then in the order of the NICs
/// and of the interfaces. Link-local ones are left out, since they mean nothing without the
/// interface of who uses them. Where there is none, loopback's.
[[nodiscard]] std::vector<std::string> hosts_for_peers(std::span<const OwnInterface> interfaces,
                                                       bool ipv6, bool of_nics_alone);

}  // namespace hbmwire::wire
