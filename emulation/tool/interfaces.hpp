// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace hbmwire::emulation::tool {

using GidBytes = std::array<std::uint8_t, 16>;

/// A network interface that a RoCE port may belong to.
struct Interface {
  std::string name;
  std::vector<GidBytes> gids;  ///< in the order of the kernel, each once
};

/// The interfaces of this process' network namespace that are up and have an address, in the order
/// of their numbers. Loopback interfaces are left out, because a RoCE port never belongs to one.
std::vector<Interface> interfaces_here();

/// The link-local address that the kernel makes from a MAC address (RFC 4291, appendix A). It is
/// also the first GID of a port on that interface.
GidBytes link_local_of(const std::array<std::uint8_t, 6>& mac);

}  // namespace hbmwire::emulation::tool
