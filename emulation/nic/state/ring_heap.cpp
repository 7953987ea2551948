// SPDX-License-Identifier: MIT
#include "emulation/nic/state/ring_heap.hpp"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "emulation/common/room.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {
namespace {

unsigned class_of(std::uint64_t bytes) {
  return std::max(RingHeap::kSmallestClass, static_cast<unsigned>(std::bit_width(bytes - 1)));
}

constexpr std::uint64_t size_of_class(unsigned size_class) { return 1ULL << size_class; }

struct Block {
  std::uint64_t offset, size;
};

void keep(std::vector<Block>& blocks, std::uint64_t offset, std::uint64_t bytes) {
  if (offset != 0) blocks.push_back({offset, size_of_class(class_of(bytes))});
}

void keep(std::vector<Block>& blocks, const ReceiveRing& receives) {
  keep(blocks, receives.ring, receives.depth * receive_stride(receives.max_sge));
}

/// Whether the ring has room in the file: all of it, since whoever writes its entries can't be
/// told.
bool has_room(Process& process, std::uint64_t block, std::uint64_t bytes) {
  return reserve(process.world().fabric.c_str(), process.at<std::byte>(block), bytes, true) == 0;
}

/// The blocks of the claimed records, by offset.
std::vector<Block> blocks_in_use(SharedState& shared) {
  const Header& header = shared.header;
  std::vector<Block> blocks;
  for (const QpRecord& qp : touched(shared.qps, header.next_qp)) {
    if (qp.claimed != 0) keep(blocks, qp.receives);
  }
  for (const SrqRecord& srq : touched(shared.srqs, header.next_srq)) {
    if (srq.claimed != 0) keep(blocks, srq.receives);
  }
  for (const CqRecord& cq : touched(shared.cqs, header.next_cq)) {
    if (cq.used.load() != 0) keep(blocks, cq.in.ring, cq_ring_bytes(cq.depth));
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const Block& a, const Block& b) { return a.offset < b.offset; });
  return blocks;
}

std::uint64_t& link_in(Process& process, std::uint64_t block) {
  return *process.at<std::uint64_t>(block);
}

}  // namespace

std::uint64_t allocate_ring(Process& process, std::uint64_t bytes) {
  RingHeap& heap = process.shared().header.heap;
  const unsigned size_class = class_of(bytes);
  if (size_class > RingHeap::kLargestClass) return 0;
  std::uint64_t& first = heap.first_free[size_class - RingHeap::kSmallestClass];
  // One store takes a block: should this process die here, a block is lost and nothing else.
  if (const std::uint64_t block = first; block != 0) {
    if (!has_room(process, block, bytes)) return 0;
    first = link_in(process, block);
    return block;
  }
  const std::uint64_t size = 1ULL << size_class;
  const std::uint64_t block = heap.first_unused;
  if (kFileBytes - block < size || !has_room(process, block, bytes)) return 0;
  heap.first_unused = block + size;
  return block;
}

void free_ring(Process& process, std::uint64_t offset, std::uint64_t bytes) {
  if (offset == 0) return;
  RingHeap& heap = process.shared().header.heap;
  const unsigned size_class = class_of(bytes);
  const std::uint64_t size = 1ULL << size_class;
  // The first page stays, it holds the link.
  if (size > kPageBytes) process.punch_hole(offset + kPageBytes, size - kPageBytes);
  std::uint64_t& first = heap.first_free[size_class - RingHeap::kSmallestClass];
  link_in(process, offset) = first;
  first = offset;
}

void rebuild_heap(Process& process) {
  RingHeap& heap = process.shared().header.heap;
  std::fill(std::begin(heap.first_free), std::end(heap.first_free), 0);
  std::uint64_t at = kHeapStart;
  const auto free_up_to = [&](std::uint64_t end) {
    while (at < end) {
      const unsigned fits = static_cast<unsigned>(std::bit_width(end - at)) - 1;
      const std::uint64_t size = size_of_class(std::min(fits, RingHeap::kLargestClass));
      free_ring(process, at, size);
      at += size;
    }
  };
  for (const Block& block : blocks_in_use(process.shared())) {
    free_up_to(block.offset);
    at = std::max(at, block.offset + block.size);
  }
  // What comes behind the last was never used, or is again as if.
  if (heap.first_unused > at) process.punch_hole(at, heap.first_unused - at);
  heap.first_unused = at;
}

std::uint64_t ring_bytes_in_use(Process& process) {
  const RingHeap& heap = process.shared().header.heap;
  std::uint64_t bytes = heap.first_unused - kHeapStart;
  for (unsigned size_class = RingHeap::kSmallestClass; size_class <= RingHeap::kLargestClass;
       ++size_class) {
    std::uint64_t block = heap.first_free[size_class - RingHeap::kSmallestClass];
    for (; block != 0; block = link_in(process, block)) bytes -= size_of_class(size_class);
  }
  return bytes;
}

}  // namespace hbmwire::emulation::nic
