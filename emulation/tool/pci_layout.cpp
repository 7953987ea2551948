// SPDX-License-Identifier: MIT
#include "emulation/tool/pci_layout.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace hbmwire::emulation::tool {
namespace {

// The root buses of the two root complexes, one for each half of the switches. A group, which is a
// switch with its devices, uses six buses: one to the switch, one inside it, and one each to a NIC
// and to a card of each family. A half has at most kMaxCards / 2 groups.
constexpr std::array<unsigned, 2> kRootBus = {0x10, 0x90};
constexpr unsigned kBusesPerGroup = 3 + kCardFamilies.size();
static_assert(kMaxNics <= kMaxCards);
static_assert(kRootBus[0] + 1 + kBusesPerGroup * (kMaxCards / 2) <= kRootBus[1]);
static_assert(kRootBus[1] + 1 + kBusesPerGroup * (kMaxCards / 2) <= 256);

constexpr PciIdentity kBridge = {0xfffe, 0x0100, 0x060400, "pcieport"};

// A function's configuration of 256 bytes; only the header, the first 64, is filled in. hwloc and
// lspci read a bridge's buses from it.
std::string config_space(const PciIdentity& identity, bool is_bridge,
                         std::array<unsigned, 3> buses) {
  std::array<unsigned char, 256> bytes{};
  const auto put = [&](std::size_t offset, std::size_t size, std::uint32_t value) {
    for (std::size_t i = 0; i < size; ++i) {
      bytes[offset + i] = static_cast<unsigned char>(value >> (8 * i));
    }
  };
  put(0x00, 2, identity.vendor);
  put(0x02, 2, identity.device);
  put(0x04, 2, 0x0006);  // command: memory space, bus master
  put(0x08, 1, 0x01);    // revision
  put(0x09, 3, identity.class_code);
  put(0x0e, 1, is_bridge ? 1 : 0);  // header type
  if (is_bridge) {
    // The primary, the secondary and the subordinate bus.
    for (std::size_t i = 0; i < buses.size(); ++i) put(0x18 + i, 1, buses[i]);
  } else {
    // The subsystem's vendor and device.
    put(0x2c, 2, identity.vendor);
    put(0x2e, 2, identity.device);
  }
  return {bytes.begin(), bytes.end()};
}

// The start, end and flags of each resource, all unused. As in Linux, a function has 6 base
// addresses, an expansion ROM and 6 resources of SR-IOV; a bridge has 4 windows too.
std::string no_resources(bool is_bridge) {
  constexpr int kResources = 6 + 1 + 6;
  constexpr int kWindows = 4;
  std::string text;
  for (int i = 0; i < kResources + (is_bridge ? kWindows : 0); ++i) {
    text += "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
  }
  return text;
}

}  // namespace

PciLayout::PciLayout(SysfsWriter& writer, const Hardware& hardware, const Machine& machine)
    : writer_(writer), machine_(machine) {
  unsigned groups = hardware.nics;
  for (const auto family : kCardFamilies) groups = std::max(groups, hardware.cards(family));
  for (unsigned group = 0; group < groups; ++group) write_group(hardware, group, groups);
}

void PciLayout::write_group(const Hardware& hardware, unsigned number, unsigned group_count) {
  const unsigned groups_in_first_half = (group_count + 1) / 2;
  const std::size_t half = number < groups_in_first_half ? 0 : 1;
  const unsigned place_in_half = half == 0 ? number : number - groups_in_first_half;
  const unsigned root_bus = kRootBus[half];
  const unsigned bus = root_bus + 1 + kBusesPerGroup * place_in_half;
  const unsigned last = bus + kBusesPerGroup - 1;

  const PciPlace root{"", fmt::format("devices/pci{:04x}:{:02x}", machine_.pci_domain, root_bus),
                      &machine_.numa[half % machine_.numa.size()]};
  const auto root_port = write_bridge(root, place_in_half, {root_bus, bus, last});
  const auto upstream_port = write_bridge(root_port, 0, {bus, bus + 1, last});
  const auto add_device = [&](unsigned device) {
    const unsigned own_bus = bus + 2 + device;
    const auto downstream_port = write_bridge(upstream_port, device, {bus + 1, own_bus, own_bus});
    const auto bdf = address(own_bus, 0);
    return PciPlace{bdf, downstream_port.path / bdf, root.numa};
  };
  if (number < hardware.nics) nics_.push_back(add_device(0));
  for (const auto family : kCardFamilies) {
    const auto index = static_cast<unsigned>(family);
    if (number < hardware.cards(family)) cards_.at(index).push_back(add_device(1 + index));
  }
}

std::string PciLayout::address(unsigned bus, unsigned device) const {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", machine_.pci_domain, bus, device);
}

PciPlace PciLayout::write_bridge(const PciPlace& above, unsigned device, const Buses& buses) {
  const auto bdf = address(buses.primary, device);
  PciPlace place{bdf, above.path / bdf, above.numa};
  write_common(place, kBridge, &buses);
  return place;
}

void PciLayout::write_endpoint(const PciPlace& place, const PciIdentity& identity) {
  write_common(place, identity, nullptr);
}

void PciLayout::write_common(const PciPlace& place, const PciIdentity& identity,
                             const Buses* buses) {
  const auto& at = place.path;
  const auto put = [&](const char* name, const std::string& value) {
    writer_.file(at / name, value);
  };
  const bool is_bridge = buses != nullptr;

  put("vendor", fmt::format("0x{:04x}", identity.vendor));
  put("device", fmt::format("0x{:04x}", identity.device));
  put("subsystem_vendor", fmt::format("0x{:04x}", identity.vendor));
  put("subsystem_device", fmt::format("0x{:04x}", identity.device));
  put("class", fmt::format("0x{:06x}", identity.class_code));
  put("revision", "0x01");
  put("irq", "0");
  put("enable", "1");
  put("numa_node", std::to_string(place.numa->number));
  put("local_cpulist", place.numa->cpulist);
  put("local_cpus", place.numa->cpumap);
  for (const char* which : {"max", "current"}) {
    put(fmt::format("{}_link_speed", which).c_str(), "32.0 GT/s PCIe");
    put(fmt::format("{}_link_width", which).c_str(), "16");
  }
  put("uevent", fmt::format("DRIVER={}\nPCI_CLASS={:X}\nPCI_ID={:04X}:{:04X}\nPCI_SLOT_NAME={}",
                            identity.driver, identity.class_code, identity.vendor, identity.device,
                            place.bdf));
  writer_.bytes(at / "config", config_space(identity, is_bridge,
                                            is_bridge ? std::array{buses->primary, buses->secondary,
                                                                   buses->subordinate}
                                                      : std::array<unsigned, 3>{}));
  writer_.bytes(at / "resource", no_resources(is_bridge));
  if (is_bridge) {
    put("secondary_bus_number", std::to_string(buses->secondary));
    put("subordinate_bus_number", std::to_string(buses->subordinate));
  }

  const std::filesystem::path driver = std::filesystem::path("bus/pci/drivers") / identity.driver;
  writer_.link(std::filesystem::path("bus/pci/devices") / place.bdf, at);
  writer_.link(driver / place.bdf, at);
  writer_.link(at / "driver", driver);
  writer_.link(at / "subsystem", "bus/pci");
}

}  // namespace hbmwire::emulation::tool
