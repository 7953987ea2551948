// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <vector>

#include "emulation/tool/status.hpp"
#include "emulation/tool/sysfs_tree.hpp"

namespace hbmwire::emulation::tool {

/// The parts of the machine that `--keep` leaves: the families of `hardware.kept`.

/// Links for the emulated sysfs tree to the PCI devices of the kept families in the machine's
/// `sysfs`, to their entries in the classes that programs look in (accel, habanalabs, drm) and to
/// those in dev/char. Readers of SYSFS_PATH see nothing but the tree.
std::vector<KeptLink> kept_links(const std::filesystem::path& sysfs, const Hardware& hardware);

/// A folder for LD_LIBRARY_PATH with the emulated libraries but those of the kept families, so that
/// the loader finds the machine's own: `libraries` itself where no family is kept, else a folder of
/// links in the node, made if it is not there.
Result<std::filesystem::path> libraries_but_kept(const std::filesystem::path& libraries,
                                                 const std::filesystem::path& node,
                                                 const Hardware& hardware);

}  // namespace hbmwire::emulation::tool
