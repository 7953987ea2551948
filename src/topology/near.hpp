// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>
#include <vector>

#include "hbmwire/nic.hpp"
#include "hbmwire/topology.hpp"

#include "topology/pci_tree.hpp"

namespace hbmwire::topology {

/// The NICs of `nics` that can carry a device's memory. The nearest comes first; equally near ones
/// keep their order. An accelerator's own scale-up NICs are left out.
[[nodiscard]] std::vector<NearNic> nics_near(std::string_view pci_address,
                                             const std::vector<NicDevice>& nics,
                                             const PciTree& tree);

}  // namespace hbmwire::topology
