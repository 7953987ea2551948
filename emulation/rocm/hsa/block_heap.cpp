// SPDX-License-Identifier: MIT
#include "emulation/rocm/hsa/block_heap.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "emulation/common/ranges.hpp"

namespace hbmwire::emulation::rocm {

namespace {

/// Reserves addresses of this process, so that no other memory gets them. A CPU access to them ends
/// the process. Returns null if none are left.
void* reserve(std::uint64_t bytes) {
  void* const addresses =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return addresses == MAP_FAILED ? nullptr : addresses;
}

}  // namespace

std::shared_ptr<Block> Block::take(Device& device, std::uint64_t bytes) {
  GpuMemory* const memory = device.memory();
  GpuMemory::Range range;
  if (memory == nullptr || memory->allocate(bytes, range) != 0) return nullptr;
  void* const addresses = reserve(range.length_bytes);
  if (addresses == nullptr) {
    memory->free(range);
    return nullptr;
  }
  return std::make_shared<Block>(*memory, range, std::bit_cast<std::uint64_t>(addresses));
}

std::shared_ptr<Block> Block::attach(Device& device, const ShareKey& key, int& error) {
  GpuMemory* const memory = device.memory();
  GpuMemory::Attachment attachment;
  error = memory == nullptr ? -ENOMEM : memory->attach(key, attachment);
  if (error != 0) return nullptr;
  void* const addresses = reserve(attachment.range.length_bytes);
  if (addresses == nullptr) {
    memory->detach(attachment);
    error = -ENOMEM;
    return nullptr;
  }
  auto block =
      std::make_shared<Block>(*memory, attachment.range, std::bit_cast<std::uint64_t>(addresses));
  block->attachment_ = attachment;
  return block;
}

Block::~Block() {
  ::munmap(std::bit_cast<void*>(base_), range_.length_bytes);
  if (attachment_) {
    memory_.detach(*attachment_);
  } else {
    memory_.free(range_);
  }
}

bool Block::show(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t offset = range_.offset_bytes + (address - base_);
  void* const shown =
      ::mmap(std::bit_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | MAP_NORESERVE, memory_.file(), static_cast<off_t>(offset));
  if (shown == MAP_FAILED) return false;
  ::madvise(shown, bytes, MADV_DONTDUMP);  // as large as the GPU's memory
  ::madvise(shown, bytes, MADV_DONTFORK);
  return true;
}

void Block::hide(std::uint64_t address, std::uint64_t bytes) {
  ::mmap(std::bit_cast<void*>(address), bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

Fragment BlockHeap::allocate(std::uint64_t bytes) {
  if (bytes > GpuMemory::kGranule) {
    auto block = Block::take(device_, bytes);
    return {block, block ? block->base() : 0};
  }
  for (Shared& shared : shared_) {
    auto& [block, used, withdrawn] = shared;
    take_back_detached(shared);
    std::vector<AddressRange> taken;
    for (const auto& [at, size] : withdrawn) taken.push_back({at, at + size});
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
  shared_.push_back({block, {{block->base(), bytes}}, {}});
  return {block, block->base()};
}

void BlockHeap::free(const Fragment& fragment) {
  const auto found = std::ranges::find(shared_, fragment.block, &Shared::block);
  if (found == shared_.end()) return;  // a block of its own, freed with its last holder
  found->used.erase(fragment.address);
  if (found->used.empty()) shared_.erase(found);
}

void BlockHeap::withdraw(const Fragment& fragment) {
  const auto found = std::ranges::find(shared_, fragment.block, &Shared::block);
  if (found != shared_.end())
    found->withdrawn.emplace(fragment.address, found->used.at(fragment.address));
  free(fragment);
}

void BlockHeap::take_back_detached(Shared& shared) {
  std::erase_if(shared.withdrawn, [&](const auto& entry) {
    const Block& block = *shared.block;
    const std::uint64_t offset = block.range().offset_bytes + (entry.first - block.base());
    return !block.memory().is_attached({offset, entry.second});
  });
}

}  // namespace hbmwire::emulation::rocm
