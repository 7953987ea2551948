// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <vector>

#include "emulation/tool/status.hpp"
#include "emulation/tool/sysfs_tree.hpp"

namespace hbmwire::emulation::tool {

/// Real devices that `--keep` leaves visible: those of the families in `hardware.kept`.

/// Links from the emulated sysfs tree to the PCI devices of the kept families in the machine's
/// `sysfs`, to their entries in the classes that programs search (accel, habanalabs, drm), and to
/// those in dev/char. Programs that use SYSFS_PATH see only the emulated tree.
std::vector<KeptLink> kept_links(const std::filesystem::path& sysfs, const Hardware& hardware);

/// A folder for LD_LIBRARY_PATH with the emulated libraries, without those of kept families, so
/// that the loader finds the machine's own. It is `libraries` itself if no family is kept.
/// Otherwise it is a folder of links in the node, which is made if necessary.
Result<std::filesystem::path> libraries_but_kept(const std::filesystem::path& libraries,
                                                 const std::filesystem::path& node,
                                                 const Hardware& hardware);

}  // namespace hbmwire::emulation::tool
