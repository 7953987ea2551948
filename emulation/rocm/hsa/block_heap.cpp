// SPDX-License-Identifier: MIT
#include "emulation/rocm/hsa/block_heap.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "emulation/common/ranges.hpp"

namespace hbmwire::emulation::rocm {

std::shared_ptr<Block> Block::take(Device& device, std::uint64_t bytes) {
  GpuMemory* const memory = device.memory();
  GpuMemory::Range range;
  if (memory == nullptr || memory->allocate(bytes, range) != 0) return nullptr;
  // Addresses are the process's own, so that no other memory has them; whoever touches them by
  // the CPU dies of it.
  void* const addresses = ::mmap(nullptr, range.length_bytes, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addresses == MAP_FAILED) {
    memory->free(range);
    return nullptr;
  }
  return std::make_shared<Block>(*memory, range, std::bit_cast<std::uint64_t>(addresses));
}

Block::~Block() {
  ::munmap(std::bit_cast<void*>(base_), range_.length_bytes);
  memory_.free(range_);
}

Fragment BlockHeap::allocate(std::uint64_t bytes) {
  if (bytes > GpuMemory::kGranule) {
    auto block = Block::take(device_, bytes);
    return {block, block ? block->base() : 0};
  }
  for (auto& [block, used] : shared_) {
    std::vector<AddressRange> taken;
    for (const auto& [at, size] : used) taken.push_back({at, at + size});
    const AddressRange all{block->base(), block->base() + block->range().length_bytes};
    for (const auto& hole : gaps(all, std::move(taken))) {
      if (hole.bytes() < bytes) continue;
      used[hole.begin] = bytes;
      return {block, hole.begin};
    }
  }
  auto block = Block::take(device_, GpuMemory::kGranule);
  if (!block) return {};
  shared_.push_back({block, {{block->base(), bytes}}});
  return {block, block->base()};
}

void BlockHeap::free(const Fragment& fragment) {
  const auto found = std::ranges::find(shared_, fragment.block, &Shared::block);
  if (found == shared_.end()) return;  // a block of its own, which goes with its last holder
  found->used.erase(fragment.address);
  if (found->used.empty()) shared_.erase(found);
}

}  // namespace hbmwire::emulation::rocm
