// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>

#include "emulation/nic/state/shared_state.hpp"

namespace hbmwire::emulation::nic {

class Process;

/// Whether a port's link is up; the port's number is the one in the fabric, as in QpRecord::port.
inline bool link_is_up(const SharedState& shared, std::uint32_t port) {
  return shared.ports[port].link_changes.load(std::memory_order_acquire) % 2 == 0;
}

/// Enters an open device, so that it is told what happens to the links of `ports` (numbers in the
/// fabric). Its index, from 1; 0 with errno.
std::uint32_t claim_context(Process& process, std::span<const std::uint32_t> ports,
                            std::uint64_t channel);
void release_context(Process& process, std::uint32_t index);

/// There is room in the context's FIFO again.
void retry_link_events(Process& process, std::uint32_t index);

}  // namespace hbmwire::emulation::nic
