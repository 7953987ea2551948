// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <vector>

#include "emulation/tool/sysfs_tree.hpp"
#include "emulation/tool/sysfs_writer.hpp"

namespace hbmwire::emulation::tool {

/// Writes class/infiniband/<nic>/ports/<n>, with the port's own GIDs and those of `interfaces`.
void write_ethernet_port(SysfsWriter& writer, const std::filesystem::path& port,
                         const PortAddress& address, const std::vector<Interface>& interfaces);

/// As write_ethernet_port(), for InfiniBand: a LID, and a single GID that contains the GUID.
void write_infiniband_port(SysfsWriter& writer, const std::filesystem::path& port,
                           const PortAddress& address);

}  // namespace hbmwire::emulation::tool
