// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/memory/mover.hpp"
#include "emulation/nic/memory/region.hpp"
#include "emulation/nic/state/process.hpp"

/// `--like-hardware=flush`: PCIe writes of a NIC into a card's memory are posted, and its reads
/// from there push them out. Called before the bytes move, for lists that are
/// SegmentList::posted(). The caller is in an Activity.
namespace hbmwire::emulation::nic {

/// NICs read the list: what each of them wrote into those cards arrives.
void push_posted(Process& process, RegionCache& cache, const SegmentList& list);

/// NICs write the first `bytes` of the list.
void post_writes(Process& process, RegionCache& cache, const SegmentList& list,
                 std::uint64_t bytes);

}  // namespace hbmwire::emulation::nic
