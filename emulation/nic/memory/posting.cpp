// SPDX-License-Identifier: MIT
#include "emulation/nic/memory/posting.hpp"

#include <algorithm>
#include <cstdint>

namespace hbmwire::emulation::nic {
namespace {

/// The address in this process of the first byte of the card's memory.
std::byte* memory_of(Process& process, RegionCache& cache, const MrRecord& mr) {
  if (mr.owner.load(std::memory_order_relaxed) == process.slot())
    return reinterpret_cast<std::byte*>(mr.address - mr.file_offset);
  const Backing* backing = cache.map(process, mr);
  return backing == nullptr ? nullptr : backing->base();
}

void post_run(Process& process, RegionCache& cache, const MrRecord& mr, std::byte* first,
              std::uint64_t length) {
  PostedWrites* posted = cache.posted(process, mr);
  const std::byte* memory = memory_of(process, cache, mr);
  if (posted == nullptr || memory == nullptr) return;
  posted->post(mr.nic, {static_cast<std::uint64_t>(first - memory), length, first});
}

/// Posts `length` bytes of an MR that consists of several ranges of the card's memory, range by
/// range.
void post_pieces(Process& process, RegionCache& cache, const MrRecord& mr, std::byte* first,
                 std::uint64_t length) {
  PostedWrites* posted = cache.posted(process, mr);
  // In the owner this is the MR's own backing.
  const Backing* backing = cache.map(process, mr);
  if (posted == nullptr || backing == nullptr) return;
  const auto offset = static_cast<std::uint64_t>(first - backing->base());
  std::uint64_t begin = 0;
  for (const auto& segment : backing->segments()) {
    const std::uint64_t from = std::max(begin, offset);
    const std::uint64_t to = std::min(begin + segment.length_bytes, offset + length);
    if (from < to)
      posted->post(mr.nic,
                   {segment.offset_bytes + (from - begin), to - from, backing->base() + from});
    begin += segment.length_bytes;
  }
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
    // Memory that cannot be mapped here is written through its owner, without posting.
    if (segment.posted_mr == 0 || segment.foreign_pid != 0 || length == 0) continue;
    const MrRecord& mr = process.shared().mrs[segment.posted_mr];
    auto* first = reinterpret_cast<std::byte*>(segment.address);
    const bool in_pieces = mr.kind == MrRecord::segments;
    (in_pieces ? post_pieces : post_run)(process, cache, mr, first, length);
  }
}

}  // namespace hbmwire::emulation::nic
