// SPDX-License-Identifier: MIT
#include "emulation/nic/state/ring_heap.hpp"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
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

/// Adds the block at `offset`, unless that is 0.
void keep(std::vector<Block>& blocks, std::uint64_t offset, std::uint64_t bytes) {
  if (offset != 0) blocks.push_back({offset, size_of_class(class_of(bytes))});
}

void keep(std::vector<Block>& blocks, const ReceiveRing& receives) {
  keep(blocks, receives.ring, receives.depth * receive_stride(receives.max_sge));
}

/// Reserves memory for the whole ring in the file. It cannot be done later, because the processes
/// that write entries could not report the failure. Returns false if there is not enough memory.
bool reserve_memory(Process& process, std::uint64_t block, std::uint64_t bytes) {
  return reserve(process.world().fabric.c_str(), process.at<std::byte>(block), bytes, true) == 0;
}

/// The blocks of the claimed records, sorted by offset.
std::vector<Block> blocks_in_use(SharedState& shared) {
  std::vector<Block> blocks;
  for (const QpRecord& qp : in_use(shared.qps, shared.uses.qps)) {
    if (qp.claimed != 0) keep(blocks, qp.receives);
  }
  for (const SrqRecord& srq : in_use(shared.srqs, shared.uses.srqs)) {
    if (srq.claimed != 0) keep(blocks, srq.receives);
  }
  for (const CqRecord& cq : in_use(shared.cqs, shared.uses.cqs)) {
    if (cq.used.load() != 0) keep(blocks, cq.in.ring, cq_ring_bytes(cq.depth));
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const Block& a, const Block& b) { return a.offset < b.offset; });
  return blocks;
}

/// Free blocks of the smallest size keep their memory until there are this many. Most are soon
/// taken again, and giving back a single block takes longer than making a queue.
constexpr std::uint32_t kMostKept = 1024;

/// The number of smallest blocks that are laid out at once.
constexpr std::uint32_t kSideBySide = 64;

/// The index into RingHeap's free blocks. Kinds 0 and 1 have the smallest size.
unsigned kind_of(unsigned size_class, Holds wanted) {
  const unsigned larger = size_class - RingHeap::kSmallestClass;
  return larger == 0 && wanted == Holds::zeros ? 0 : larger + 1;
}

std::uint64_t size_of_kind(unsigned kind) { return kPageBytes << (kind == 0 ? 0 : kind - 1); }

/// The list of free blocks of a kind, which has room for as many as the heap can hold.
std::uint32_t* names_of(RingHeap& heap, unsigned kind) {
  if (kind == 0) return heap.pages;
  constexpr std::uint64_t kAll = RingHeap::kPages;
  // Between kind 0's list and this one lie kAll + kAll / 2 + kAll / 4 + ... entries.
  return heap.pages + kAll + (2 * kAll - (2 * kAll >> (kind - 1)));
}

std::uint64_t offset_of(std::uint32_t page) {
  return kHeapStart + (std::uint64_t{page} << RingHeap::kSmallestClass);
}

std::uint32_t page_at(std::uint64_t offset) {
  return static_cast<std::uint32_t>((offset - kHeapStart) >> RingHeap::kSmallestClass);
}

/// Adds a free block. `empty`: it holds zeros and takes no memory. The block counts as free only
/// after it is in the list. If this process dies before, the block is lost until the heap is
/// rebuilt.
void push(RingHeap& heap, unsigned kind, std::uint64_t offset, bool empty) {
  RingHeap::Free& free = heap.free[kind];
  names_of(heap, kind)[free.count] = page_at(offset);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (empty && free.empty == free.count) ++free.empty;
  ++free.count;
}

/// Gives back the memory of all free blocks of a smallest kind. Neighbours, which are common, are
/// given back together.
void give_back(Process& process, unsigned kind) {
  RingHeap& heap = process.shared().heap;
  RingHeap::Free& free = heap.free[kind];
  std::uint32_t* const names = names_of(heap, kind);
  std::sort(names + free.empty, names + free.count);
  for (std::uint32_t at = free.empty; at < free.count;) {
    std::uint32_t pages = 1;
    while (at + pages < free.count && names[at + pages] == names[at] + pages) ++pages;
    process.punch_hole(offset_of(names[at]), pages * kPageBytes);
    at += pages;
  }
  free.empty = free.count;
}

/// Lays out new blocks behind all others. Returns false if the heap is full.
bool extend(RingHeap& heap, unsigned kind) {
  const std::uint64_t size = size_of_kind(kind);
  const std::uint64_t count = kind <= 1 ? kSideBySide : 1;
  const std::uint64_t first = heap.first_unused;
  if (kFileBytes - first < count * size) return false;
  heap.first_unused = first + count * size;
  // Pushes the last block first, because the block that is pushed last is taken first.
  for (std::uint64_t i = count; i != 0; --i) push(heap, kind, first + (i - 1) * size, true);
  return true;
}

}  // namespace

std::uint64_t allocate_ring(Process& process, std::uint64_t bytes, Holds wanted) {
  RingHeap& heap = process.shared().heap;
  const unsigned size_class = class_of(bytes);
  if (size_class > RingHeap::kLargestClass) return 0;
  const unsigned kind = kind_of(size_class, wanted);
  RingHeap::Free& free = heap.free[kind];
  if (free.count == 0 && !extend(heap, kind)) return 0;
  const std::uint64_t block = offset_of(names_of(heap, kind)[free.count - 1]);
  if (!reserve_memory(process, block, bytes)) return 0;
  // One store takes the block. If this process dies here, only a block is lost.
  const bool empty = free.empty == free.count;
  if (empty) --free.empty;
  --free.count;
  if (!empty && wanted == Holds::zeros) std::memset(process.at<std::byte>(block), 0, kPageBytes);
  return block;
}

void free_ring(Process& process, std::uint64_t offset, std::uint64_t bytes, Holds wanted) {
  if (offset == 0) return;
  RingHeap& heap = process.shared().heap;
  const unsigned kind = kind_of(class_of(bytes), wanted);
  const bool smallest = kind <= 1;
  if (!smallest) process.punch_hole(offset, size_of_kind(kind));
  push(heap, kind, offset, !smallest);
  const RingHeap::Free& free = heap.free[kind];
  if (free.count - free.empty >= kMostKept) give_back(process, kind);
}

void rebuild_heap(Process& process) {
  RingHeap& heap = process.shared().heap;
  std::fill(std::begin(heap.free), std::end(heap.free), RingHeap::Free{});
  std::uint64_t at = kHeapStart;
  const auto free_up_to = [&](std::uint64_t end) {
    if (at < end) process.punch_hole(at, end - at);
    while (at < end) {
      const unsigned fits = static_cast<unsigned>(std::bit_width(end - at)) - 1;
      const unsigned kind = kind_of(std::min(fits, RingHeap::kLargestClass), Holds::anything);
      push(heap, kind, at, true);
      at += size_of_kind(kind);
    }
  };
  for (const Block& block : blocks_in_use(process.shared())) {
    free_up_to(block.offset);
    at = std::max(at, block.offset + block.size);
  }
  // The space after the last block is unused; give its memory back as well.
  if (heap.first_unused > at) process.punch_hole(at, heap.first_unused - at);
  heap.first_unused = at;
}

std::uint64_t ring_bytes_in_use(Process& process) {
  RingHeap& heap = process.shared().heap;
  std::uint64_t bytes = heap.first_unused - kHeapStart;
  for (unsigned kind = 0; kind < RingHeap::kKinds; ++kind)
    bytes -= heap.free[kind].count * size_of_kind(kind);
  return bytes;
}

}  // namespace hbmwire::emulation::nic
