// SPDX-License-Identifier: MIT
#include "emulation/nic/memory/posting.hpp"

#include <algorithm>

namespace hbmwire::emulation::nic {
namespace {

/// Where the card's memory is mapped here.
std::byte* memory_of(Process& process, RegionCache& cache, const MrRecord& mr) {
  if (mr.owner.load(std::memory_order_relaxed) != process.slot()) return cache.map(process, mr);
  return reinterpret_cast<std::byte*>(mr.address - mr.file_offset);
}

}  // namespace

void push_posted(Process& process, RegionCache& cache, const SegmentList& list) {
  for (const Segment& segment : list.view()) {
    if (segment.posted_mr == 0) continue;
    const MrRecord& mr = process.shared().mrs[segment.posted_mr];
    if (PostedWrites* posted = cache.posted(process, mr)) posted->arrive(mr.nic);
  }
}

void post_writes(Process& process, RegionCache& cache, const SegmentList& list,
                 std::uint64_t bytes) {
  for (const Segment& segment : list.view()) {
    const std::uint64_t length = std::min(segment.length, bytes);
    bytes -= length;
    // What can't be mapped here is written through its owner, and seen at once.
    if (segment.posted_mr == 0 || segment.foreign_pid != 0 || length == 0) continue;
    const MrRecord& mr = process.shared().mrs[segment.posted_mr];
    PostedWrites* posted = cache.posted(process, mr);
    std::byte* memory = memory_of(process, cache, mr);
    if (posted == nullptr || memory == nullptr) continue;
    auto* first = reinterpret_cast<std::byte*>(segment.address);
    posted->post(mr.nic, {static_cast<std::uint64_t>(first - memory), length, first});
  }
}

}  // namespace hbmwire::emulation::nic
