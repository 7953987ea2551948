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

/// Whether UDP, and packets as large as the interface's MTU, reach an address of another machine.
/// RoCE v2 is UDP that must not be fragmented: a network that loses either lets TCP pass all the
/// same. Sizes are those of IP packets, as interfaces count their MTU.
namespace hbmwire::tools::doctor {

/// Larger packets are of no use to RoCE, whose largest one takes 4200 bytes; 9216 is what switches
/// are set to.
inline constexpr std::uint32_t kLargestPacket = 9216;

struct DatagramWay {
  IpAddress address;                ///< with the echo's port
  LocalInterface interface;         ///< that the packets leave by; MTU 0 where there is no route
  std::uint32_t asked_bytes = 0;    ///< the largest packet tried: the MTU, at most kLargestPacket
  std::uint32_t arrived_bytes = 0;  ///< the largest packet that arrived; 0: none
  bool exact = true;                ///< false: time was over, and larger ones may arrive
  std::uint32_t far_mtu_bytes = 0;  ///< of the interface that received them; 0: not known
  int error = 0;                    ///< errno of send(2), if that failed
  std::optional<Unreachable> told;  ///< the last ICMP message that came back

  [[nodiscard]] bool works() const noexcept { return arrived_bytes != 0; }
};

/// Sends datagrams to the DatagramEcho on `port` of all addresses (at most kMostAddresses) at once,
/// none of them fragmented, and finds the largest packet that arrives. It takes a few round trips
/// where all is well, 0.6 s where nothing arrives, and at most 5 s. The echo must be served
/// meanwhile: an answer that takes longer than 0.6 s is a lost packet. The other direction is not
/// tried, since answers are small. Errors: interrupted; no descriptors.
Outcome<std::vector<DatagramWay>> try_datagrams(std::vector<IpAddress> addresses,
                                                std::uint16_t port, const Nonce& nonce,
                                                const Wait& wait);

/// Findings of the checks "way-udp" and, where datagrams arrive, "way-mtu".
[[nodiscard]] std::vector<Finding> findings_of(const DatagramWay& way);

/// The path MTU that RoCE has with an interface of this MTU: a power of two from 256 to 4096, less
/// than the interface's by all headers; 0: none fits. Source: iboe_get_mtu() of
/// include/rdma/ib_addr.h, Linux 6.12.
[[nodiscard]] std::uint32_t roce_mtu_bytes(std::uint32_t interface_mtu_bytes) noexcept;

}  // namespace hbmwire::tools::doctor
