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

/// The fabric, for who changes the links of its ports.
struct LinkState {
  const std::filesystem::path& fabric;
  SharedState& shared;
  Fifos& fifos;
};

/// Takes a port's link down or up. Every process that has the NIC open is told
/// (IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE), and every request that waits tries again. 0 or an
/// errno. EBUSY: a process that was stopped is in the way of telling all; the link is changed.
int set_link(const std::filesystem::path& fabric, std::uint32_t fabric_port, bool up);

/// The same for who has the fabric's state.
int change_link(const LinkState& state, std::uint32_t fabric_port, bool up);

/// Notes that a link is to come up at a time (of now_ns()), unless somebody changes it before.
void raise_link_at(SharedState& shared, std::uint32_t fabric_port, std::uint64_t due_ns);

/// Takes up the links whose time has come. Whoever has something to do with links calls it, as the
/// process that took one down may be dead. When the next is due; 0: none.
std::uint64_t raise_due_links(const LinkState& state, std::uint64_t now_ns);

/// Gives `count` ports from `first` on to a new node: their links are up, they have counted
/// nothing. The fabric's lock is held. 0 or an errno.
int renew_ports(const std::filesystem::path& fabric, std::uint32_t first, std::uint32_t count);

/// Puts the changes of its ports' links that a context has not been told of yet into its FIFO, as
/// far as they fit. ContextRecord::mutex is held.
void tell_of_links(const SharedState& shared, Fifos& fifos, ContextRecord& context);

/// Makes the process in `slot` look at its parked requests.
void poke_process(SharedState& shared, Fifos& fifos, std::uint32_t slot);

}  // namespace hbmwire::emulation::nic
