// SPDX-License-Identifier: MIT
#include "topology/near.hpp"

#include <algorithm>

namespace hbmwire {

std::string_view to_string(Distance distance) noexcept {
  switch (distance) {
    case Distance::same_switch:
      return "PIX";
    case Distance::same_host_bridge:
      return "PHB";
    case Distance::same_numa_node:
      return "NODE";
    case Distance::across:
      return "SYS";
    case Distance::unknown:
      return "unknown";
  }
  return "?";
}

namespace topology {

std::vector<NearNic> nics_near(std::string_view pci_address, const std::vector<NicDevice>& nics,
                               const PciTree& tree) {
  std::vector<NearNic> near;
  for (const NicDevice& nic : nics) {
    if (nic.scale_up) continue;
    near.push_back({.name = nic.name,
                    .pci_address = nic.pci_address,
                    .numa_node = tree.numa_node(nic.pci_address),
                    .distance = tree.distance(pci_address, nic.pci_address)});
  }
  std::ranges::stable_sort(near, {}, &NearNic::distance);
  return near;
}

}  // namespace topology

}  // namespace hbmwire
