// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hbmwire/export.hpp"

namespace hbmwire {

/// How far two PCI devices are from each other, by what lies between them; nearest first.
enum class Distance : std::uint8_t {
  same_switch,       ///< PIX: PCIe switches at most; they hang below one port of the root complex
  same_host_bridge,  ///< PHB: a host bridge of the CPU, which may or may not let peers through
  same_numa_node,    ///< NODE: two host bridges near one NUMA node
  across,            ///< SYS: the interconnect between NUMA nodes
  unknown,           ///< hwloc does not see one of them, or does not know where it is
};

/// "PIX", "PHB", "NODE", "SYS", "unknown".
[[nodiscard]] HBMWIRE_API std::string_view to_string(Distance distance) noexcept;

/// An RDMA device as seen from another device.
struct NearNic {
  std::string name;                       ///< "mlx5_0"
  std::string pci_address;                ///< empty: a software NIC
  int numa_node = -1;                     ///< -1: unknown
  Distance distance = Distance::unknown;  ///< from the device that was asked about
};

/// A PCIe link as it is trained now, in one direction.
struct PciLink {
  double gigatransfers_per_second = 0;  ///< of a lane: 2.5, 5, 8, 16, 32, 64
  unsigned lanes = 0;                   ///< how many it has
  std::string at;                       ///< PCI address of the device or bridge at its lower end

  /// Its speed after line encoding (8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, none above), in
  /// bytes a second. Packet headers are not subtracted: their share depends on the payload size.
  [[nodiscard]] HBMWIRE_API double bytes_per_second() const noexcept;

  bool operator==(const PciLink&) const = default;
};

}  // namespace hbmwire
