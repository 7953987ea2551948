// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "emulation/nic/state/process.hpp"

/// The QPs that are attached to multicast groups.
namespace hbmwire::emulation::nic {

/// Attaches a QP; a second time has no effect. Returns 0, ENOMEM if the table is full, or EBUSY if
/// a stopped process holds the lock.
int attach_multicast(Process& process, std::uint32_t qpn, const Destination& group);

/// Detaches a QP. Returns 0, EINVAL for a QP that is not attached, or EBUSY as above.
int detach_multicast(Process& process, std::uint32_t qpn, const Destination& group);

/// The number of groups that a QP is attached to; it must be 0 before the QP is destroyed. Returns
/// nullopt if a stopped process holds the lock.
std::optional<std::uint32_t> count_multicast(Process& process, std::uint32_t qpn);

/// The numbers of the QPs attached to the group. Empty if a stopped process holds the lock:
/// datagrams may be lost.
std::vector<std::uint32_t> multicast_members(Process& process, const Destination& group);

}  // namespace hbmwire::emulation::nic
