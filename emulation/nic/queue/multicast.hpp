// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "emulation/nic/state/process.hpp"

/// Which QPs are attached to which multicast groups.
namespace hbmwire::emulation::nic {

/// 0, or ENOMEM when the table is full, or EBUSY (Hold). Attaching twice is attaching once.
int attach_multicast(Process& process, std::uint32_t qpn, const Destination& group);

/// 0, or EINVAL for a QP that is not attached.
int detach_multicast(Process& process, std::uint32_t qpn, const Destination& group);

/// How many groups a QP is attached to: until it is none it can't be destroyed. Nothing: it can't
/// be told now.
std::optional<std::uint32_t> count_multicast(Process& process, std::uint32_t qpn);

/// Numbers of the QPs that get the group's messages; none when that can't be told now: datagrams
/// may be lost.
std::vector<std::uint32_t> multicast_members(Process& process, const Destination& group);

}  // namespace hbmwire::emulation::nic
