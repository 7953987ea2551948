// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "hbmwire/topology.hpp"

namespace hbmwire::topology {

/// Context::pci_link() by the sysfs at `root`. The devices on the way are read from the real path
/// of the device's directory, devices/pci0000:00/0000:00:01.0/0000:01:00.0, because hwloc leaves
/// out bridges that it finds uninteresting, and knows no link widths.
[[nodiscard]] std::optional<PciLink> narrowest_link(const std::filesystem::path& root,
                                                    std::string_view pci_address,
                                                    std::string_view towards);

}  // namespace hbmwire::topology
