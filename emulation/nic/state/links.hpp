// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>

#include "emulation/nic/state/fifo.hpp"

/// The links of a fabric's ports. `hbmwire emulate` changes them without being a NIC; the NICs
/// react to the changes.
namespace hbmwire::emulation::nic {

struct ContextRecord;
struct SharedState;

/// A fabric's state, for code that changes the links of its ports.
struct LinkState {
  const std::filesystem::path& fabric;
  SharedState& shared;
  Fifos& fifos;
};

/// Takes a port's link down or up. Every process that has the NIC open gets an event
/// (IBV_EVENT_PORT_ERR or IBV_EVENT_PORT_ACTIVE), and every waiting request tries again. Returns 0
/// or an errno. EBUSY: the link has changed, but a stopped process holds a lock that is needed to
/// notify all.
int set_link(const std::filesystem::path& fabric, std::uint32_t fabric_port, bool up);

/// As set_link(), for a caller that has mapped the fabric's state.
int change_link(const LinkState& state, std::uint32_t fabric_port, bool up);

/// Notes that a link comes up at `due_ns` (of now_ns()), unless forget_rises() is called before.
void raise_link_at(SharedState& shared, std::uint32_t fabric_port, std::uint64_t due_ns);

/// Voids what raise_link_at() noted for a port, because its link is changed anew.
void forget_rises(SharedState& shared, std::uint32_t fabric_port);

/// Takes up the links whose time has come. Every process that deals with links calls it, because
/// the process that took a link down may be dead. Returns when the next link is due; 0: none.
std::uint64_t raise_due_links(const LinkState& state, std::uint64_t now_ns);

/// Gives `count` ports from `first` on to a new node, with their links up and counters of 0. The
/// caller holds the fabric's lock. Returns 0 or an errno.
int renew_ports(const std::filesystem::path& fabric, std::uint32_t first, std::uint32_t count);

/// Writes the link changes that a context has not seen yet into its FIFO, as many as fit. The
/// caller holds ContextRecord::mutex.
void tell_of_links(const SharedState& shared, Fifos& fifos, ContextRecord& context);

/// Wakes the process in `slot` to look at its parked requests.
void poke_process(SharedState& shared, Fifos& fifos, std::uint32_t slot);

}  // namespace hbmwire::emulation::nic
