// SPDX-License-Identifier: MIT
//
// The driver's memory manager: allocations of HBM, and mappings in the device's address space.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <vector>

#include "emulation/gaudi/card.hpp"

namespace hbmwire::emulation::gaudi {
namespace {

using Blocks = std::vector<AddressRange>;

Blocks blocks_within(const StateContent& content, AddressRange range) {
  Blocks taken;
  for (const auto& slot : content.mappings) {
    if (slot.live != 0 && slot.block.begin >= range.begin && slot.block.begin < range.end)
      taken.push_back(slot.block);
  }
  return taken;
}

struct BlockRequest {
  AddressRange range;
  std::uint64_t bytes = 0;
  std::uint64_t alignment = 0;
  std::uint64_t hint = 0;
  bool force_hint = false;
};

// Chooses an address as the driver does: the hint if it is aligned and free, otherwise the smallest
// hole that is large enough. Returns 0 if there is none.
std::uint64_t choose_address(const StateContent& content, BlockRequest request) {
  const auto aligned = [&](std::uint64_t address) {
    return request.range.begin + round_up(address - request.range.begin, request.alignment);
  };
  if (request.hint != 0 &&
      (request.hint < request.range.begin || aligned(request.hint) != request.hint)) {
    if (request.force_hint) return 0;
    request.hint = 0;
  }
  std::uint64_t best = 0;
  std::uint64_t best_bytes = UINT64_MAX;
  for (const auto& hole : gaps(request.range, blocks_within(content, request.range))) {
    const std::uint64_t begin = aligned(hole.begin);
    if (begin >= hole.end || hole.end - begin < request.bytes) continue;
    if (request.hint >= begin && request.hint < hole.end &&
        hole.end - request.hint >= request.bytes) {
      return request.hint;
    }
    if (hole.end - begin < best_bytes) {
      best = begin;
      best_bytes = hole.end - begin;
    }
  }
  return request.force_hint ? 0 : best;
}

AllocationSlot* find_allocation(StateContent& content, std::uint64_t handle) {
  for (auto& slot : content.allocations) {
    if (slot.live != 0 && slot.handle == handle) return &slot;
  }
  return nullptr;
}

MappingSlot* find_mapping(StateContent& content, std::uint64_t address) {
  for (auto& slot : content.mappings) {
    if (slot.live != 0 && slot.address == address) return &slot;
  }
  return nullptr;
}

bool is_mapped(const StateContent& content, std::uint32_t handle) {
  return std::ranges::any_of(
      content.mappings, [&](const auto& slot) { return slot.live != 0 && slot.handle == handle; });
}

// The driver's idr returns the smallest free number.
std::uint32_t free_handle(StateContent& content) {
  std::uint32_t handle = 1;
  while (find_allocation(content, handle) != nullptr) ++handle;
  return handle;
}

// The driver pins the pages. Here it suffices that the range is mapped.
int check_host_range(const HostRange& range) {
  if (range.bytes == 0) return -EINVAL;
  const std::uint64_t end = range.address + range.bytes;
  if (end < range.address || round_up(end, kHostPage) < end) return -EINVAL;
  std::array<unsigned char, 4096> residency;  // one byte for each page: 16 MiB at a time
  const std::uint64_t last = round_up(end, kHostPage);
  for (std::uint64_t at = range.address / kHostPage * kHostPage; at < last;) {
    const std::uint64_t bytes = std::min<std::uint64_t>(last - at, residency.size() * kHostPage);
    // The address is the application's pointer and is only passed to the kernel.
    void* pages = std::bit_cast<void*>(at);
    if (::mincore(pages, bytes, residency.data()) != 0) return errno == ENOMEM ? -EFAULT : -errno;
    at += bytes;
  }
  return 0;
}

}  // namespace

int Card::allocate(const MemoryRequest& request, std::uint64_t& handle) {
  handle = 0;
  if (state() == nullptr) return -errno;
  if (request.bytes == 0) return -EINVAL;
  const StateLock content(*state_);
  if (!kind().has_dram_mmu) {
    // Gaudi1: the driver only counts the bytes that it is told. Handle 0 means success.
    content->unmanaged_bytes += request.bytes;
    return 0;
  }
  std::uint64_t page = kind().page_bytes;
  if (kind().page_sizes != 0 && request.page_bytes != 0) {
    if (!std::has_single_bit(request.page_bytes) || (request.page_bytes & kind().page_sizes) == 0)
      return -EINVAL;
    page = request.page_bytes;
  }
  if (request.bytes > kind().hbm_bytes) return -ENOMEM;
  const std::uint64_t bytes = round_up(request.bytes, page);

  Blocks taken;
  for (const auto& slot : content->allocations) {
    if (slot.live != 0) taken.push_back({slot.offset, slot.offset + slot.bytes});
  }
  AllocationSlot* slot = free_slot(content->allocations);
  if (slot == nullptr) return -ENOMEM;
  for (const auto& hole : gaps({kind().user_begin, kind().hbm_bytes}, std::move(taken))) {
    const std::uint64_t begin = round_up(hole.begin, page);
    if (begin >= hole.end || hole.end - begin < bytes) continue;
    *slot = {.live = 0,
             .handle = free_handle(*content),
             .offset = begin,
             .bytes = bytes,
             .page_bytes = page};
    handle = slot->handle;
    take(*slot);
    return 0;
  }
  return -ENOMEM;
}

int Card::free(std::uint64_t handle) {
  if (state() == nullptr) return -errno;
  const StateLock content(*state_);
  if (!kind().has_dram_mmu) {
    // The driver takes the handle as a size: both are the same word of its argument.
    content->unmanaged_bytes -= std::min(handle, content->unmanaged_bytes);
    return 0;
  }
  AllocationSlot* slot = find_allocation(*content, handle & UINT32_MAX);
  if (slot == nullptr || is_mapped(*content, slot->handle)) return -EINVAL;
  punch(slot->offset, slot->bytes);
  give_back(*slot);
  return 0;
}

int Card::map_device(std::uint64_t handle, std::uint64_t hint, std::uint64_t& address) {
  address = 0;
  if (state() == nullptr) return -errno;
  const StateLock content(*state_);
  const AllocationSlot* allocation =
      kind().has_dram_mmu ? find_allocation(*content, handle & UINT32_MAX) : nullptr;
  if (allocation == nullptr) return -EINVAL;
  MappingSlot* slot = free_slot(content->mappings);
  if (slot == nullptr) return -ENOMEM;
  const std::uint64_t chosen =
      choose_address(*content, {.range = kind().dram,
                                .bytes = allocation->bytes,
                                .alignment = std::max(allocation->page_bytes, kind().page_bytes),
                                .hint = hint});
  if (chosen == 0) return -ENOMEM;
  *slot = {.live = 0,
           .handle = allocation->handle,
           .address = chosen,
           .block = {chosen, chosen + allocation->bytes}};
  take(*slot);
  address = chosen;
  return 0;
}

int Card::map_host(const HostRange& range, std::uint64_t hint, std::uint32_t flags,
                   std::uint64_t& address) {
  address = 0;
  if (state() == nullptr) return -errno;
  if ((flags & HL_MEM_ODP) != 0) return -EOPNOTSUPP;
  if (const int error = check_host_range(range); error != 0) return error;
  const std::uint64_t offset = range.address % kHostPage;
  const bool force_hint = (flags & HL_MEM_FORCE_HINT) != 0;
  if (hint != 0 && offset != 0 && force_hint) return -EINVAL;
  const StateLock content(*state_);
  MappingSlot* slot = free_slot(content->mappings);
  if (slot == nullptr) return -ENOMEM;
  const std::uint64_t bytes = round_up(offset + range.bytes, kHostPage);
  const std::uint64_t chosen = choose_address(
      *content, {.range = kind().host,
                 .bytes = bytes,
                 .alignment = range.address % kHostHugePage == 0 ? kHostHugePage : kHostPage,
                 .hint = hint,
                 .force_hint = force_hint});
  if (chosen == 0) return -ENOMEM;
  *slot = {.live = 0, .handle = 0, .address = chosen + offset, .block = {chosen, chosen + bytes}};
  take(*slot);
  address = slot->address;
  return 0;
}

int Card::unmap(std::uint64_t address) {
  if (state() == nullptr) return -errno;
  const StateLock content(*state_);
  collect_exports(*content);
  MappingSlot* slot = find_mapping(*content, address);
  if (slot == nullptr) return -EINVAL;
  const bool exported = std::ranges::any_of(
      content->exports, [&](const auto& one) { return one.live != 0 && one.address == address; });
  if (exported) return -EINVAL;
  give_back(*slot);
  return 0;
}

int Card::usage(MemoryUsage& usage) {
  if (state() == nullptr) return -errno;
  const StateLock content(*state_);
  usage.used_bytes = content->unmanaged_bytes;
  for (const auto& slot : content->allocations) usage.used_bytes += slot.live != 0 ? slot.bytes : 0;
  const std::uint64_t total = kind().hbm_bytes - kind().user_begin;
  usage.free_bytes = total - std::min(total, usage.used_bytes);
  return 0;
}

int Card::find_backing(std::uint64_t address, Backing& backing) {
  if (state() == nullptr) return -errno;
  if (!kind().has_dram_mmu) {
    if (address < kind().dram.begin || address >= kind().dram.end) return -EINVAL;
    backing = {.offset = address, .bytes = kind().dram.end - address};
    return 0;
  }
  const StateLock content(*state_);
  const MappingSlot* mapping = find_mapping(*content, address);
  const AllocationSlot* allocation = mapping != nullptr && mapping->handle != 0
                                         ? find_allocation(*content, mapping->handle)
                                         : nullptr;
  if (allocation == nullptr) return -EINVAL;
  backing = {.offset = allocation->offset, .bytes = allocation->bytes};
  return 0;
}

}  // namespace hbmwire::emulation::gaudi
