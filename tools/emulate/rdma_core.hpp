// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

#include "tools/emulate/status.hpp"
#include "tools/emulate/sysfs_tree.hpp"

namespace hbmwire::tools::emulate {

/// Whether the libibverbs that COMMAND will load accepts our plugin: rdma-core 36 to 56 share
/// private ABI 34.
Status check_rdma_core();

/// Where the emulated libraries are, found from this program's own place: the build tree's or the
/// installed ones.
Result<std::filesystem::path> emulation_directory(const Hardware& hardware);

/// The name of the plugin as IBV_DRIVERS takes it: libibverbs itself adds "-rdmav34.so".
inline constexpr const char* kPlugin = "libhbmwire_nic";

}  // namespace hbmwire::tools::emulate
