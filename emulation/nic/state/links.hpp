// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>

#include "emulation/nic/state/fifo.hpp"

/// The links of a fabric's ports: what `hbmwire emulate` does to them from outside of any NIC, and
/// what the NICs do on their side of it.
namespace hbmwire::emulation::nic {

struct ContextRecord;
struct SharedState;

/// Takes a port's link down or up. Every process that has the NIC open is told
/// (IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE), and every request that waits tries again. The
/// fabric's lock is held: changes come one after the other. 0 or an errno. EBUSY: a process that
/// was stopped is in the way of telling all; the link is changed.
int set_link(const std::filesystem::path& fabric, std::uint32_t fabric_port, bool up);

/// Gives `count` ports from `first` on to a new node: their links are up, they have counted
/// nothing. The fabric's lock is held. 0 or an errno.
int renew_ports(const std::filesystem::path& fabric, std::uint32_t first, std::uint32_t count);

/// Puts the changes of its ports' links that a context has not been told of yet into its FIFO, as
/// far as they fit. ContextRecord::mutex is held.
void tell_of_links(const SharedState& shared, Fifos& fifos, ContextRecord& context);

/// Makes the process in `slot` look at its parked requests.
void poke_process(SharedState& shared, Fifos& fifos, std::uint32_t slot);

}  // namespace hbmwire::emulation::nic
