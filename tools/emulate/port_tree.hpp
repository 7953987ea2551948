// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <vector>

#include "tools/emulate/sysfs_tree.hpp"
#include "tools/emulate/sysfs_writer.hpp"

namespace hbmwire::tools::emulate {

/// Writes class/infiniband/<nic>/ports/<n>, with the port's own GIDs and those of `interfaces`.
void write_port(SysfsWriter& writer, const std::filesystem::path& port, const PortAddress& address,
                const std::vector<Interface>& interfaces);

}  // namespace hbmwire::tools::emulate
