// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/tool/status.hpp"

namespace hbmwire::emulation::tool {

/// Whether the kernel answers on NETLINK_RDMA. libibverbs then takes its list of devices from there
/// and ignores SYSFS_PATH.
bool kernel_has_rdma_netlink();

/// Makes socket(AF_NETLINK, *, protocol) fail with EPROTONOSUPPORT in this process and its
/// descendants, as on a kernel without that protocol. Without CAP_SYS_ADMIN it also disables setuid
/// programs for them.
Status block_netlink(int protocol);

}  // namespace hbmwire::emulation::tool
