// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "emulation/common/world.hpp"
#include "emulation/tool/status.hpp"
#include "emulation/tool/sysfs_tree.hpp"

namespace hbmwire::emulation::tool {

/// Tries, in a child that changes nothing here, whether this process may have its own view of /dev
/// and /sys.
Status try_namespaces();

/// Whether a view needs a user namespace, as for an ordinary user. For root a mount namespace
/// suffices.
bool needs_user_namespace();

/// Puts this process into the fabric's user namespace, and creates that namespace if this process
/// is the first. The whole fabric shares one, because only within one does the kernel let a NIC in
/// one process reach the memory of another (process_vm_readv). The fabric's lock is held.
Status enter_user_namespace(const std::filesystem::path& fabric);

/// Records for later processes of the fabric that `process` is in its user namespace.
Status register_user_namespace(const std::filesystem::path& fabric, pid_t process);

/// Gives this process a mount namespace whose mounts do not appear in any other namespace. Works in
/// a chroot too, whose / is not a mount point.
Status enter_private_mount_namespace();

/// Gives this process its own view. In /dev it shows the emulated devices and no other RDMA or
/// accelerator devices, except those of kept families. In /sys it shows the emulated devices beside
/// the real ones. A /sys that cannot be overlaid stays as it is; then only libibverbs sees the
/// tree, by SYSFS_PATH.
Status enter_emulated_view(const emulation::World& world, const Hardware& hardware);

/// Device nodes that a machine with this hardware has, as paths below /dev: "infiniband/uverbs0",
/// "accel/accel0", ...
struct DeviceNode {
  std::string name;
  bool required;  ///< libibverbs needs all its nodes; cards are opened elsewhere
};

std::vector<DeviceNode> device_nodes(const Hardware& hardware);

}  // namespace hbmwire::emulation::tool
