// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "emulation/common/world.hpp"
#include "emulation/tool/status.hpp"
#include "emulation/tool/sysfs_tree.hpp"

namespace hbmwire::emulation::tool {

/// Finds out, in a child that changes nothing here, whether this process may have a view of /dev
/// and /sys of its own.
Status try_namespaces();

/// Whether that takes a user namespace (an ordinary user) or a mount namespace suffices (root).
bool needs_user_namespace();

/// Puts this process into the fabric's user namespace, or makes that if it is the first. One for
/// the whole fabric: the kernel lets a NIC in one process reach the memory of another
/// (process_vm_readv) only within one. With the fabric's lock held.
Status enter_user_namespace(const std::filesystem::path& fabric);

/// Tells those who join the fabric later that `process` is in its user namespace.
Status register_user_namespace(const std::filesystem::path& fabric, pid_t process);

/// Gives this process a mount namespace in which whatever it mounts stays: nothing appears in
/// another namespace. In a chroot, too, whose / is no mount point.
Status enter_private_mount_namespace();

/// Gives this process a view of its own: in /dev the emulated devices and no other RDMA or
/// accelerator devices but those of kept families, in /sys the emulated devices beside the real
/// ones. A /sys that cannot be overlaid stays as it is (SYSFS_PATH then serves libibverbs alone).
Status enter_emulated_view(const emulation::World& world, const Hardware& hardware);

/// Paths below /dev of the nodes that a machine with this hardware has: "infiniband/uverbs0",
/// "accel/accel0", ...
struct DeviceNode {
  std::string name;
  bool required;  ///< libibverbs does without none of its nodes; the cards are opened elsewhere
};

std::vector<DeviceNode> device_nodes(const Hardware& hardware);

}  // namespace hbmwire::emulation::tool
