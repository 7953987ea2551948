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

/// The addresses of this machine, and those of them that peers are told.
namespace hbmwire::wire {

/// An IPv6 address, or an IPv4 address as ::ffff:a.b.c.d.
using IpBytes = std::array<std::uint8_t, 16>;

/// A network interface that is up and has a link.
struct OwnInterface {
  std::uint32_t number = 0;  ///< if_nametoindex(3)
  bool loopback = false;
  std::vector<std::uint8_t> hardware = {};  ///< of its link: 6 bytes for Ethernet, 20 for IPoIB
  std::vector<IpBytes> addresses = {};
  /// The RDMA NIC of this interface, as its user counts NICs. own_interfaces() does not set it.
  std::optional<std::size_t> nic = {};
};

/// Calls getifaddrs(3). Errors: Stage::connect.
Result<std::vector<OwnInterface>> own_interfaces();

/// The address on which a socket listens.
struct BoundTo {
  std::string host;  ///< empty: all addresses
  bool ipv6 = true;  ///< with all addresses: IPv6 ones, too
};

[[nodiscard]] BoundTo bound_to(const sockaddr& address);

/// The addresses that other machines may reach, the most useful first. Interfaces of NICs come
/// before others. Then IPv4 comes before IPv6, and global IPv6 addresses before unique local ones.
/// Then the order of NICs and of interfaces counts. Link-local addresses are left out, because they
/// mean nothing without the peer's own interface. If there is no other address, returns those of
/// the loopback interface. `ipv6`: whether peers may be told IPv6 addresses. `of_nics_alone`:
/// leaves out interfaces without a NIC.
[[nodiscard]] std::vector<std::string> hosts_for_peers(std::span<const OwnInterface> interfaces,
                                                       bool ipv6, bool of_nics_alone);

}  // namespace hbmwire::wire
