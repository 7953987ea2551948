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

/// The interface with this index, as in IP_PKTINFO (ip(7)). Errors: there is no such interface.
Result<LocalInterface> interface_of_index(unsigned index);

/// The interface through which the kernel sends to an address. The source address does not identify
/// it: in fabrics with routing on the host that address belongs to the loopback device. Errors: no
/// route; no netlink. Source: rtnetlink(7), RTM_GETROUTE.
Result<LocalInterface> interface_towards(const IpAddress& address);

}  // namespace hbmwire::tools::doctor
