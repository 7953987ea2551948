// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hbmwire/deadline.hpp"

#include "tools/common/failure.hpp"
#include "tools/doctor/checks/finding.hpp"
#include "tools/doctor/remote/datagram_echo.hpp"
#include "tools/doctor/remote/interface_towards.hpp"
#include "tools/doctor/remote/ip_address.hpp"
#include "tools/doctor/remote/unreachable.hpp"

/// Tests whether UDP, and packets as large as the interface's MTU, reach an address of another
/// machine. RoCE v2 is UDP and must not be fragmented. A network that loses such packets may still
/// pass TCP. Sizes are those of IP packets, as in an interface's MTU.
namespace hbmwire::tools::doctor {

/// The largest packet that is tried: as switches are usually set. RoCE gains nothing from larger
/// ones, since its largest packet has 4200 bytes.
inline constexpr std::uint32_t kLargestPacket = 9216;

struct DatagramWay {
  IpAddress address;                ///< includes the port of the echo
  LocalInterface interface;         ///< the interface that sends the packets; MTU 0 if there is no
                                    ///< route
  std::uint32_t asked_bytes = 0;    ///< the largest packet tried: the MTU, at most kLargestPacket
  std::uint32_t arrived_bytes = 0;  ///< the largest packet that arrived; 0 if none did
  bool exact = true;                ///< false if the time was over, so larger packets may arrive,
                                    ///< too
  std::uint32_t far_mtu_bytes = 0;  ///< MTU of the interface that received them; 0 if unknown
  int error = 0;                    ///< errno of send(2) if it failed
  std::optional<Unreachable> told;  ///< the last ICMP message that came back

  [[nodiscard]] bool works() const noexcept { return arrived_bytes != 0; }
};

/// Sends datagrams to the DatagramEcho on `port` of all addresses (at most kMostAddresses) at once,
/// without fragmentation, and finds the largest packet that arrives. This takes a few round trips
/// if all is well, 0.6 s if nothing arrives, and at most 5 s. The echo must be served meanwhile: an
/// answer that takes longer than 0.6 s counts as a lost packet. The other direction is not tried,
/// since answers are small. Errors: interrupted; no descriptors.
Outcome<std::vector<DatagramWay>> try_datagrams(std::vector<IpAddress> addresses,
                                                std::uint16_t port, const Nonce& nonce,
                                                const Wait& wait);

/// The findings of the check "way-udp" and, if datagrams arrive, of "way-mtu".
[[nodiscard]] std::vector<Finding> findings_of(const DatagramWay& way);

/// The path MTU that RoCE uses on an interface with this MTU: the largest power of two from 256 to
/// 4096 that leaves room for all headers; 0 if none does. Source: iboe_get_mtu() of
/// include/rdma/ib_addr.h, Linux 6.12.
[[nodiscard]] std::uint32_t roce_mtu_bytes(std::uint32_t interface_mtu_bytes) noexcept;

}  // namespace hbmwire::tools::doctor
