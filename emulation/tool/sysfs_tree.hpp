// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/nic/state/limits.hpp"
#include "emulation/tool/hardware.hpp"
#include "emulation/tool/interfaces.hpp"
#include "emulation/tool/status.hpp"

namespace hbmwire::emulation::tool {

using emulation::nic::kGidTableLength;
/// A node's number is a byte of its NICs' addresses. 0 and 255 are not used.
inline constexpr unsigned kMaxNodes = 254;

/// Identifies a port by its fabric, node, NIC and number. All addresses of the port follow from it,
/// and differ from those of every other port in the fabric.
struct PortAddress {
  std::uint8_t fabric = 0;  ///< 16 to 239, from the fabric's name
  std::uint8_t node = 0;    ///< 1 to kMaxNodes
  std::uint8_t nic = 0;     ///< 1 to kMaxNics
  std::uint8_t port = 1;    ///< 1 to kMaxPorts

  /// The NIC's number for port 1; 128 more for port 2.
  [[nodiscard]] std::uint8_t last() const;
  [[nodiscard]] std::string ipv4() const;  ///< 127.fabric.node.last: usable without any set-up
  [[nodiscard]] std::string guid() const;  ///< "0248:42ff:fe...", locally administered
  [[nodiscard]] GidBytes link_local_gid() const;
  [[nodiscard]] GidBytes ipv4_gid() const;
  [[nodiscard]] GidBytes infiniband_gid() const;  ///< the default subnet prefix and the GUID
  [[nodiscard]] std::uint16_t lid() const;        ///< on InfiniBand: 1 to 8128

  /// The number of the port among all ports of the fabric, from 1. NICs share the port's state
  /// under this number.
  [[nodiscard]] unsigned fabric_port() const;
};

/// The name of the render node of the n-th emulated AMD GPU: "renderD128", ...
std::string render_node(unsigned index);

/// A GID in the form of sysfs: "fe80:0000:0000:...".
std::string eight_groups(const GidBytes& gid);

/// The LID of the subnet manager that InfiniBand ports report. No port has it.
inline constexpr std::uint16_t kSubnetManagerLid = 0xbfff;

/// The number of a fabric. Every process computes the same one from the name.
std::uint8_t fabric_number(std::string_view fabric);

/// A link of the emulated tree ("bus/pci/devices/0000:3a:00.0") to a device of the machine's sysfs.
struct KeptLink {
  std::filesystem::path path;
  std::filesystem::path target;  ///< absolute

  bool operator==(const KeptLink&) const = default;
};

/// Properties of the real machine. The emulated devices are added to them.
struct Machine {
  struct NumaNode {
    int number = 0;
    std::string cpulist;
    std::string cpumap;
  };

  std::vector<NumaNode> numa;              ///< never empty; number -1 if the machine does not tell
  unsigned pci_domain = 0;                 ///< the first domain without a real device
  std::vector<Interface> interfaces = {};  ///< their addresses are GIDs too
  std::vector<KeptLink> kept = {};         ///< links to real devices that the tree shows

  static Machine here();
};

/// Writes the sysfs tree of one node below `root`, which must not exist yet.
Status write_sysfs_tree(const std::filesystem::path& root, const Hardware& hardware,
                        const Machine& machine, std::uint8_t fabric, std::uint8_t node);

}  // namespace hbmwire::emulation::tool
