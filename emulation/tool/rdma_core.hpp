// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

#include "emulation/tool/status.hpp"
#include "emulation/tool/sysfs_tree.hpp"

namespace hbmwire::emulation::tool {

/// Finds the emulated libraries relative to this program, in the build tree or as installed. With
/// NICs it fails if COMMAND will load a libibverbs that the plugin does not know.
Result<std::filesystem::path> emulation_directory(const Hardware& hardware);

/// The name of the plugin for IBV_DRIVERS. libibverbs adds "-rdmavN.so" itself.
inline constexpr const char* kPlugin = "libhbmwire_nic";

}  // namespace hbmwire::emulation::tool
