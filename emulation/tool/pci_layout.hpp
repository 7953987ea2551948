// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "emulation/tool/sysfs_tree.hpp"
#include "emulation/tool/sysfs_writer.hpp"

namespace hbmwire::emulation::tool {

/// The place of a device. Card i of each family and NIC i are below the same switch. The first half
/// of the switches is below one root complex (the first NUMA node), the second half below another.
struct PciPlace {
  std::string bdf;             ///< "0001:14:00.0"
  std::filesystem::path path;  ///< below the tree's root: devices/pci0001:10/.../0001:14:00.0
  const Machine::NumaNode* numa = nullptr;
};

/// The PCI tree of the emulated devices in sysfs.
class PciLayout {
 public:
  /// Writes the bridges and switches of `hardware`; `machine` must outlive the layout.
  PciLayout(SysfsWriter& writer, const Hardware& hardware, const Machine& machine);

  [[nodiscard]] const PciPlace& card(CardFamily family, unsigned index) const {
    return cards_[static_cast<std::size_t>(family)][index];
  }

  [[nodiscard]] const PciPlace& nic(unsigned index) const { return nics_[index]; }

  /// Writes the attributes that every PCI function has, and its links to the bus and the driver.
  void write_endpoint(const PciPlace& place, const PciIdentity& identity);

 private:
  struct Buses {
    unsigned primary = 0;
    unsigned secondary = 0;
    unsigned subordinate = 0;
  };

  /// Writes group `number` of `group_count`: the switch, and the devices below it.
  void write_group(const Hardware& hardware, unsigned number, unsigned group_count);
  /// Writes a bridge at `device` of its primary bus, which is below `above`.
  PciPlace write_bridge(const PciPlace& above, unsigned device, const Buses& buses);
  void write_common(const PciPlace& place, const PciIdentity& identity, const Buses* buses);
  [[nodiscard]] std::string address(unsigned bus, unsigned device) const;

  SysfsWriter& writer_;
  const Machine& machine_;
  std::array<std::vector<PciPlace>, kCardFamilies.size()> cards_;
  std::vector<PciPlace> nics_;
};

}  // namespace hbmwire::emulation::tool
