// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "emulation/nic/state/behaviour.hpp"
#include "emulation/nic/state/shared_state.hpp"

namespace hbmwire::emulation::nic {

/// A port of the device, from its sysfs files.
struct PortInfo {
  std::uint32_t fabric_port = 0;  // its number among the ports of the fabric
  std::array<Gid, kGidTableLength> gids{};
  std::uint16_t lid = 0;  // 0: an Ethernet port
  std::uint16_t subnet_manager_lid = 0;

  [[nodiscard]] bool is_infiniband() const { return lid != 0; }
};

/// The device as its sysfs tree describes it. The tree is the only configuration; the plugin has
/// none of its own.
struct DeviceInfo {
  std::filesystem::path directory;  // <sysfs>/class/infiniband/<name>
  std::string firmware;
  std::uint64_t guid = 0;  // in network order
  std::uint32_t vendor_id = 0;
  std::uint32_t part_id = 0;
  std::uint32_t revision = 0;
  Behaviour behaviour;
  std::vector<PortInfo> ports;  // port 1 comes first

  /// Returns null for a port that the NIC does not have.
  [[nodiscard]] const PortInfo* port(std::uint32_t number) const {
    return number == 0 || number > ports.size() ? nullptr : &ports[number - 1];
  }

  [[nodiscard]] std::vector<std::uint32_t> fabric_ports() const;

  static DeviceInfo read(const std::filesystem::path& directory);
};

/// The number that a sysfs file begins with ("4: ACTIVE" gives 4, "0x1d0f" gives 0x1d0f), or
/// `otherwise`.
std::uint32_t sysfs_number(const std::filesystem::path& file, std::uint32_t otherwise);

std::string sysfs_line(const std::filesystem::path& file);

/// A GID and a GUID (in network order) from sysfs files; zero if there is none.
Gid read_gid(const std::filesystem::path& file);
std::uint64_t read_guid(const std::filesystem::path& file);

}  // namespace hbmwire::emulation::nic
