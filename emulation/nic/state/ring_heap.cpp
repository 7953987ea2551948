// SPDX-License-Identifier: MIT
#include "emulation/nic/state/ring_heap.hpp"

#include <fcntl.h>

#include <algorithm>
#include <bit>

#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {
namespace {

unsigned class_of(std::uint64_t bytes) {
  return std::max(RingHeap::kSmallestClass, static_cast<unsigned>(std::bit_width(bytes - 1)));
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
    first = link_in(process, block);
    return block;
  }
  const std::uint64_t size = 1ULL << size_class;
  const std::uint64_t block = heap.first_unused;
  if (kFileBytes - block < size) return 0;
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

}  // namespace hbmwire::emulation::nic
