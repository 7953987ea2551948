// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/memory/mover.hpp"
#include "emulation/nic/memory/region.hpp"
#include "emulation/nic/state/process.hpp"

/// `--like-hardware=flush`: a NIC's PCIe writes to a card's memory are posted, and the NIC's reads
/// from that memory push them out. These functions are called before the bytes move, for lists that
/// are SegmentList::posted(). The caller is inside an Activity.
namespace hbmwire::emulation::nic {

/// Handles NICs' reads of the list: makes everything arrive that these NICs have written to those
/// cards.
void push_posted(Process& process, RegionCache& cache, const SegmentList& list);

/// Notes that NICs write the first `bytes` of the list.
void post_writes(Process& process, RegionCache& cache, const SegmentList& list,
                 std::uint64_t bytes);

}  // namespace hbmwire::emulation::nic
