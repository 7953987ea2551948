// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace hbmwire::emulation::nic {

using Gid = std::array<std::uint8_t, 16>;

/// The address of packets: a GID on Ethernet; a LID on InfiniBand, with a GID if they have a GRH.
struct Destination {
  Gid gid{};
  std::uint16_t lid = 0;
  bool global = true;
};

/// ::ffff:a.b.c.d, the form of an IPv4 address in RoCE.
inline bool is_ipv4_mapped(const Gid& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

inline bool is_link_local(const Gid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0U) == 0x80; }

/// ff00::/8, or a group address of IPv4.
inline bool is_multicast(const Gid& gid) {
  return gid[0] == 0xff || (is_ipv4_mapped(gid) && gid[12] >> 4U == 0xe);
}

}  // namespace hbmwire::emulation::nic
