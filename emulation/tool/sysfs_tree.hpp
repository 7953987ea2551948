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
/// A node's number is a byte of its NICs' addresses; 0 and 255 are left out.
inline constexpr unsigned kMaxNodes = 254;

/// Which port of which node of which fabric; every port of a fabric gets an address of its own from
/// it.
struct PortAddress {
  std::uint8_t fabric = 0;  ///< 16 to 239, from the fabric's name
  std::uint8_t node = 0;    ///< 1 to kMaxNodes
  std::uint8_t nic = 0;     ///< 1 to kMaxNics
  std::uint8_t port = 1;    ///< 1 to kMaxPorts

  /// The NIC's number at port 1, and 128 more at port 2.
  [[nodiscard]] std::uint8_t last() const;
  [[nodiscard]] std::string ipv4() const;  ///< 127.fabric.node.last: bindable without any set-up
  [[nodiscard]] std::string guid() const;  ///< "0248:42ff:fe...", locally administered
  [[nodiscard]] GidBytes link_local_gid() const;
  [[nodiscard]] GidBytes ipv4_gid() const;
  [[nodiscard]] GidBytes infiniband_gid() const;  ///< the default subnet prefix, and the GUID
  [[nodiscard]] std::uint16_t lid() const;        ///< on InfiniBand: 1 to 8128

  /// The port's place among all ports of the fabric, from 1: where the NICs keep what they share of
  /// it.
  [[nodiscard]] unsigned fabric_port() const;
};

/// Of the n-th emulated AMD GPU: "renderD128", ...
std::string render_node(unsigned index);

/// As sysfs shows a GID: "fe80:0000:0000:...".
std::string eight_groups(const GidBytes& gid);

/// Of the subnet manager that InfiniBand ports say there is: no port has it.
inline constexpr std::uint16_t kSubnetManagerLid = 0xbfff;

/// A fabric's number is the same in every process that computes it.
std::uint8_t fabric_number(std::string_view fabric);

/// A link of the emulated tree ("bus/pci/devices/0000:3a:00.0") to a device of the machine's sysfs.
struct KeptLink {
  std::filesystem::path path;
  std::filesystem::path target;  ///< absolute

  bool operator==(const KeptLink&) const = default;
};

/// What the machine below really has; the emulated devices are put beside it.
struct Machine {
  struct NumaNode {
    int number = 0;
    std::string cpulist;
    std::string cpumap;
  };

  std::vector<NumaNode> numa;  ///< never empty; number -1 on a machine that does not say
  unsigned pci_domain = 0;     ///< the first without a real device
  std::vector<Interface> interfaces = {};  ///< whose addresses are GIDs too
  std::vector<KeptLink> kept = {};         ///< to devices that the tree shows, too

  static Machine here();
};

/// Writes the sysfs tree of one node below `root`, which must not exist yet.
Status write_sysfs_tree(const std::filesystem::path& root, const Hardware& hardware,
                        const Machine& machine, std::uint8_t fabric, std::uint8_t node);

}  // namespace hbmwire::emulation::tool
