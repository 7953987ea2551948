// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

#include "emulation/tool/status.hpp"
#include "emulation/tool/sysfs_tree.hpp"

namespace hbmwire::emulation::tool {

/// Where the emulated libraries are, found from this program's own place: the build tree's or the
/// installed ones. Refuses NICs when the libibverbs that COMMAND will load is one that the plugin
/// does not know.
Result<std::filesystem::path> emulation_directory(const Hardware& hardware);

/// The name of the plugin as IBV_DRIVERS takes it: libibverbs itself adds "-rdmavN.so".
inline constexpr const char* kPlugin = "libhbmwire_nic";

}  // namespace hbmwire::emulation::tool
