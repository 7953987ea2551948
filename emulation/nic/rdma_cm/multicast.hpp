// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/rdma_cm/address.hpp"
#include "emulation/nic/rdma_cm/cm_lock.hpp"

namespace hbmwire::emulation::nic {

/// Joins a group; the result comes as the event MULTICAST_JOIN. Sets `handle`. Returns 0 or the
/// kernel's errno.
int join_multicast(Process& process, CmId& id, const CmAddress& group, bool send_only,
                   std::uint64_t uid, std::uint32_t& handle);

/// Leaves a group. Returns how many of its events were reported.
std::uint32_t leave_multicast(Process& process, std::uint32_t handle);

}  // namespace hbmwire::emulation::nic
