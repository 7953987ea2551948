// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "hbmwire/error.hpp"

#include "tools/doctor/remote/ip_address.hpp"

namespace hbmwire::tools::doctor {

/// A network interface of this machine.
struct LocalInterface {
  std::string name;  ///< "eth0"
  std::uint32_t mtu_bytes = 0;

  bool operator==(const LocalInterface&) const = default;
};

/// By its index, as IP_PKTINFO gives it (ip(7)). Errors: none has it.
Result<LocalInterface> interface_of_index(unsigned index);

/// The one by which the kernel sends to an address. The source address would not tell: in fabrics
/// with routing to the host it is the loopback device's. Errors: no route; no netlink. Source:
/// rtnetlink(7), RTM_GETROUTE.
Result<LocalInterface> interface_towards(const IpAddress& address);

}  // namespace hbmwire::tools::doctor
