// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/rdma_cm/address.hpp"
#include "emulation/nic/rdma_cm/cm_lock.hpp"

namespace hbmwire::emulation::nic {

/// Joins a group; the outcome comes as MULTICAST_JOIN. Sets `handle`; 0 or the kernel's errno.
int join_multicast(Process& process, CmId& id, const CmAddress& group, bool send_only,
                   std::uint64_t uid, std::uint32_t& handle);

/// How many events of the group were reported.
std::uint32_t leave_multicast(Process& process, std::uint32_t handle);

}  // namespace hbmwire::emulation::nic
