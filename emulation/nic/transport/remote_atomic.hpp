// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/memory/mover.hpp"
#include "emulation/nic/state/process.hpp"
#include "emulation/nic/transport/request.hpp"

namespace hbmwire::emulation::nic {

/// Executes a compare-and-swap or fetch-and-add of the 8 aligned bytes at `target`, and stores the
/// old value to `result`. It is atomic with respect to all NICs of the fabric, but not to CPUs
/// (IBV_ATOMIC_HCA). Returns 0 or an errno, as move_bytes() does. EBUSY: a stopped process holds
/// the lock of atomics.
int remote_atomic(Process& process, const Request& request, const Segment& target,
                  const SegmentList& result);

}  // namespace hbmwire::emulation::nic
