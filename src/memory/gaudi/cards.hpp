// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hbmwire::memory::gaudi {

/// A Gaudi card, as sysfs shows it; no node is opened.
struct Card {
  std::string pci_address;  ///< "0000:33:00.0"
  std::uint32_t device_id = 0;
  int index = -1;      ///< of its node, /dev/accel/accel<index>; -1: no driver
  int numa_node = -1;  ///< -1: unknown
  std::string status;  ///< "Operational", "in reset", ...; empty: unknown
};

/// All cards of this machine. Cards with a node come first, by its index. Reads /sys/class/accel
/// (kernel 6.3 and newer, both layouts), /sys/class/habanalabs (older), and /sys/bus/pci for cards
/// without a driver. Leaves out other vendors' accelerators.
[[nodiscard]] std::vector<Card> find_cards();

/// "gaudi2" and so on, from a PCI device id.
[[nodiscard]] const char* model_name(std::uint32_t device_id) noexcept;

/// The device addresses that the memory of a card with this PCI device id can have: [begin, end).
struct AddressRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

[[nodiscard]] AddressRange addresses_of(std::uint32_t device_id) noexcept;

}  // namespace hbmwire::memory::gaudi
