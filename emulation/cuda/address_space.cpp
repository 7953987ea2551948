// SPDX-License-Identifier: MIT
#include "emulation/cuda/address_space.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "emulation/common/ranges.hpp"
#include "emulation/cuda/reserved_addresses.hpp"

namespace hbmwire::emulation::cuda {
namespace {

// As in the driver, small allocations share blocks, and one may begin where another ends.
constexpr std::uint64_t kSmall = 1ULL << 20U;
constexpr std::uint64_t kAlignment = 512;

/// The entry that contains the address, or end().
template <typename Map>
typename Map::iterator holder(Map& map, std::uint64_t address) {
  auto after = map.upper_bound(address);
  if (after == map.begin()) return map.end();
  --after;
  return address - after->first < after->second.bytes ? after : map.end();
}

/// The first address in the block with room for `bytes`; 0: there is none.
std::uint64_t first_fit(const Region& block, std::uint64_t bytes) {
  std::uint64_t at = block.address;
  std::map<std::uint64_t, std::uint64_t> taken = block.withdrawn;
  taken.insert(block.taken.begin(), block.taken.end());
  for (const auto& [address, size] : taken) {
    if (address - at >= bytes) return at;
    at = address + round_up(size, kAlignment);
  }
  return block.address + block.bytes - at >= bytes ? at : 0;
}

}  // namespace

Physical::Physical(GpuMemory& memory, int device, const GpuMemory::Range& range)
    : memory_(memory), device_(device), range_(range) {
  static std::atomic<std::uint64_t> next{1};
  id_ = next.fetch_add(1);
}

Physical::~Physical() {
  if (attachment_) {
    memory_.detach(*attachment_);
  } else {
    memory_.free(range_);
  }
}

std::shared_ptr<Physical> Physical::allocate(GpuMemory& memory, int device, std::uint64_t bytes) {
  GpuMemory::Range range;
  if (memory.allocate(bytes, range) != 0) return nullptr;
  return std::shared_ptr<Physical>(new Physical(memory, device, range));
}

std::shared_ptr<Physical> Physical::attach(GpuMemory& memory, int device, const ShareKey& key,
                                           int& error) {
  GpuMemory::Attachment attachment;
  error = memory.attach(key, attachment);
  if (error != 0) return nullptr;
  std::shared_ptr<Physical> physical(new Physical(memory, device, attachment.range));
  physical->attachment_ = attachment;
  return physical;
}

Allocation* AddressSpace::allocation_at(std::uint64_t address) {
  const auto found = holder(allocations_, address);
  return found == allocations_.end() ? nullptr : &found->second;
}

Region* AddressSpace::region_at(std::uint64_t address) {
  const auto found = holder(regions_, address);
  return found == regions_.end() ? nullptr : &found->second;
}

void AddressSpace::record(const AllocationRequest& request, Region& region, std::uint64_t address) {
  Allocation allocation;
  allocation.address = address;
  allocation.bytes = request.bytes;
  allocation.origin = region.origin;
  allocation.context = request.context;
  allocation.device = request.device;
  allocation.id = next_id_++;
  allocation.physical = region.physical;
  if (region.physical)
    allocation.offset = region.physical->range().offset_bytes + (address - region.address);
  allocation.region = region.address;
  allocations_.emplace(address, std::move(allocation));
  region.taken.emplace(address, request.bytes);
}

/// Allocates memory with a region of its own.
CUresult AddressSpace::allocate_region(const AllocationRequest& request, Origin origin, bool in_gpu,
                                       std::uint64_t& address) {
  Region region;
  region.origin = origin;
  region.context = request.context;
  region.bytes = round_up(request.bytes, in_gpu ? kGranule : kHostPage);
  if (in_gpu) {
    region.physical = Physical::allocate(*request.memory, request.device, request.bytes);
    if (!region.physical) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  region.address = reserve_addresses(region.bytes, in_gpu ? kGranule : kHostPage);
  if (region.address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const bool for_cpu = origin != Origin::alloc;
  if (for_cpu &&
      !show_to_cpu(region.address, region.bytes, request.memory, region.physical.get())) {
    release_addresses(region.address, region.bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  address = region.address;
  Region& kept = regions_.emplace(address, std::move(region)).first->second;
  record(request, kept, address);
  return CUDA_SUCCESS;
}

CUresult AddressSpace::place_in_block(const AllocationRequest& request, std::uint64_t& address) {
  for (auto& [base, block] : regions_) {
    const bool fits = block.origin == Origin::alloc && block.bytes == kGranule &&
                      block.context == request.context && block.physical;
    if (!fits) continue;
    take_back_closed(block);
    address = first_fit(block, round_up(request.bytes, kAlignment));
    if (address == 0) continue;
    record(request, block, address);
    return CUDA_SUCCESS;
  }
  return allocate_region(request, Origin::alloc, true, address);
}

CUresult AddressSpace::allocate(const AllocationRequest& request, std::uint64_t& address) {
  const std::unique_lock lock(mutex_);
  if (request.bytes <= kSmall) return place_in_block(request, address);
  return allocate_region(request, Origin::alloc, true, address);
}

CUresult AddressSpace::allocate_managed(const AllocationRequest& request, std::uint64_t& address) {
  const std::unique_lock lock(mutex_);
  return allocate_region(request, Origin::managed, false, address);
}

CUresult AddressSpace::allocate_host(const AllocationRequest& request, bool in_gpu,
                                     std::uint64_t& address) {
  const std::unique_lock lock(mutex_);
  return allocate_region(request, Origin::host, in_gpu, address);
}

void AddressSpace::drop(Regions::iterator region) {
  release_addresses(region->second.address, region->second.bytes);
  regions_.erase(region);
}

void AddressSpace::erase(Allocations::iterator allocation) {
  const auto region = regions_.find(allocation->second.region);
  withdraw(allocation->second, region->second);
  region->second.taken.erase(allocation->first);
  allocations_.erase(allocation);
  if (region->second.taken.empty() && region->second.origin != Origin::mapped) drop(region);
}

CUresult AddressSpace::free(std::uint64_t address, bool host) {
  const std::unique_lock lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return CUDA_ERROR_INVALID_VALUE;
  const Origin origin = found->second.origin;
  if (origin == Origin::mapped || origin == Origin::ipc || (origin == Origin::host) != host)
    return CUDA_ERROR_INVALID_VALUE;
  erase(found);
  return CUDA_SUCCESS;
}

CUresult AddressSpace::pin(std::uint64_t address, std::uint64_t bytes, CUcontext context) {
  const std::unique_lock lock(mutex_);
  if (allocation_at(address) != nullptr) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  const bool overlaps = std::ranges::any_of(pinned_, [&](const auto& each) {
    return each.first < address + bytes && address < each.first + each.second.bytes;
  });
  if (overlaps) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  Allocation allocation;
  allocation.address = address;
  allocation.bytes = bytes;
  allocation.origin = Origin::host;
  allocation.context = context;
  allocation.id = next_id_++;
  pinned_.emplace(address, std::move(allocation));
  return CUDA_SUCCESS;
}

CUresult AddressSpace::unpin(std::uint64_t address) {
  const std::unique_lock lock(mutex_);
  return pinned_.erase(address) == 1 ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

std::uint64_t AddressSpace::count_pinned() {
  const std::shared_lock lock(mutex_);
  return pinned_.size();
}

void AddressSpace::free_all_of(CUcontext context) {
  const std::unique_lock lock(mutex_);
  std::erase_if(pinned_, [&](const auto& each) { return each.second.context == context; });
  for (auto at = allocations_.begin(); at != allocations_.end();) {
    const auto next = std::next(at);
    if (at->second.context == context) erase(at);
    at = next;
  }
}

CUresult AddressSpace::reserve(std::uint64_t bytes, std::uint64_t alignment,
                               std::uint64_t& address) {
  address = reserve_addresses(bytes, std::max(alignment, kGranule));
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Region region;
  region.address = address;
  region.bytes = bytes;
  region.origin = Origin::mapped;
  const std::unique_lock lock(mutex_);
  regions_.emplace(address, std::move(region));
  return CUDA_SUCCESS;
}

CUresult AddressSpace::unreserve(std::uint64_t address, std::uint64_t bytes) {
  const std::unique_lock lock(mutex_);
  const auto found = regions_.find(address);
  const bool right = found != regions_.end() && found->second.origin == Origin::mapped &&
                     found->second.bytes == bytes && found->second.taken.empty();
  if (!right) return CUDA_ERROR_INVALID_VALUE;
  drop(found);
  return CUDA_SUCCESS;
}

CUresult AddressSpace::map(std::uint64_t address, std::uint64_t bytes,
                           std::shared_ptr<Physical> physical) {
  const std::unique_lock lock(mutex_);
  Region* region = region_at(address);
  if (region == nullptr || region->origin != Origin::mapped ||
      !holds(region->address, region->bytes, address, bytes) ||
      bytes > physical->range().length_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [other, length] : region->taken) {
    if (other < address + bytes && address < other + length) return CUDA_ERROR_INVALID_VALUE;
  }
  const AllocationRequest request{&physical->memory(), physical->device(), nullptr, bytes};
  record(request, *region, address);
  Allocation& mapping = allocations_.at(address);
  mapping.offset = physical->range().offset_bytes;
  mapping.physical = std::move(physical);
  mapping.accessible = false;
  return CUDA_SUCCESS;
}

/// Finds the mapping that begins at `at` and ends by `end`. A range that ends inside a mapping is
/// refused.
bool AddressSpace::next_mapping(std::uint64_t at, std::uint64_t end, Allocation*& mapping) {
  const auto found = allocations_.find(at);
  if (found == allocations_.end() || found->second.origin != Origin::mapped) return false;
  mapping = &found->second;
  return mapping->bytes <= end - at;
}

CUresult AddressSpace::unmap(std::uint64_t address, std::uint64_t bytes) {
  const std::unique_lock lock(mutex_);
  const std::uint64_t end = address + bytes;
  Allocation* mapping = nullptr;
  for (std::uint64_t at = address; at < end; at += mapping->bytes) {
    if (!next_mapping(at, end, mapping)) return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::uint64_t at = address; at < end;) {
    const auto found = allocations_.find(at);
    at += found->second.bytes;
    erase(found);
  }
  return CUDA_SUCCESS;
}

CUresult AddressSpace::make_accessible(std::uint64_t address, std::uint64_t bytes) {
  const std::unique_lock lock(mutex_);
  const std::uint64_t end = address + bytes;
  std::vector<Allocation*> mappings;
  for (std::uint64_t at = address; at < end; at += mappings.back()->bytes) {
    Allocation* mapping = nullptr;
    if (!next_mapping(at, end, mapping)) return CUDA_ERROR_INVALID_VALUE;
    mappings.push_back(mapping);
  }
  for (Allocation* mapping : mappings) mapping->accessible = true;
  return CUDA_SUCCESS;
}

bool AddressSpace::find(std::uint64_t address, Allocation& found) {
  const std::shared_lock lock(mutex_);
  const Allocation* allocation = allocation_at(address);
  for (const auto& [begin, pinned] : pinned_) {
    if (holds(begin, pinned.bytes, address, 1)) allocation = &pinned;
  }
  if (allocation != nullptr) found = *allocation;
  return allocation != nullptr;
}

bool AddressSpace::find_region(std::uint64_t address, Region& found) {
  const std::shared_lock lock(mutex_);
  const Region* region = region_at(address);
  if (region != nullptr) found = *region;
  return region != nullptr;
}

CUresult AddressSpace::set_sync_memops(std::uint64_t address, bool on) {
  const std::unique_lock lock(mutex_);
  Allocation* allocation = allocation_at(address);
  if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The driver has this attribute only for memory of cuMemAlloc, of any process. For other memory
  // it is an attribute of the context.
  if (allocation->origin != Origin::alloc && allocation->origin != Origin::ipc)
    return CUDA_ERROR_NOT_SUPPORTED;
  allocation->sync_memops = on;
  return CUDA_SUCCESS;
}

bool AddressSpace::resolve(std::uint64_t address, std::uint64_t bytes, std::vector<Piece>& pieces) {
  const std::shared_lock lock(mutex_);
  while (bytes != 0) {
    const Allocation* allocation = allocation_at(address);
    if (allocation == nullptr) {
      const auto after = regions_.lower_bound(address);
      // Reserved addresses without an allocation have no memory.
      const bool meets_region = region_at(address) != nullptr ||
                                (after != regions_.end() && after->first - address < bytes);
      if (!meets_region) pieces.push_back({nullptr, address, bytes});
      return !meets_region;
    }
    if (!allocation->accessible) return false;
    const std::uint64_t from = address - allocation->address;
    const std::uint64_t length = std::min(bytes, allocation->bytes - from);
    if (allocation->physical) {
      pieces.push_back({&allocation->physical->memory(), allocation->offset + from, length});
    } else {
      pieces.push_back({nullptr, address, length});
    }
    address += length;
    bytes -= length;
    // The next allocation must be in the same reservation: a neighbour in a block is unrelated
    // memory.
    if (bytes != 0 && allocation->origin != Origin::mapped) return false;
  }
  return true;
}

CUresult AddressSpace::resolve_export(std::uint64_t address, std::uint64_t bytes, int device,
                                      std::vector<GpuMemory::Range>& ranges) {
  const std::shared_lock lock(mutex_);
  const Region* region = region_at(address);
  if (region == nullptr || !holds(region->address, region->bytes, address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (region->origin != Origin::mapped) {
    // Managed memory, host memory, or memory of another process: only the process that has
    // allocated it can export it.
    if (!region->physical || region->origin == Origin::ipc) return CUDA_ERROR_NOT_SUPPORTED;
    if (region->physical->device() != device) return CUDA_ERROR_INVALID_VALUE;
    ranges.push_back({region->physical->range().offset_bytes + (address - region->address), bytes});
    return CUDA_SUCCESS;
  }
  for (const std::uint64_t end = address + bytes; address < end;) {
    const Allocation* mapping = allocation_at(address);
    if (mapping == nullptr || mapping->device != device) return CUDA_ERROR_INVALID_VALUE;
    if (!mapping->physical->rdma_capable) return CUDA_ERROR_NOT_SUPPORTED;
    const std::uint64_t from = address - mapping->address;
    const std::uint64_t length = std::min(end - address, mapping->bytes - from);
    const std::uint64_t offset = mapping->offset + from;
    if (!ranges.empty() && ranges.back().offset_bytes + ranges.back().length_bytes == offset) {
      ranges.back().length_bytes += length;
    } else {
      ranges.push_back({offset, length});
    }
    address += length;
  }
  return CUDA_SUCCESS;
}

std::uint64_t AddressSpace::count(Origin origin, int device) {
  const std::shared_lock lock(mutex_);
  return static_cast<std::uint64_t>(std::ranges::count_if(allocations_, [&](const auto& entry) {
    return entry.second.origin == origin && entry.second.device == device;
  }));
}

std::uint64_t AddressSpace::count_reservations() {
  const std::shared_lock lock(mutex_);
  return static_cast<std::uint64_t>(std::ranges::count_if(
      regions_, [](const auto& entry) { return entry.second.origin == Origin::mapped; }));
}

}  // namespace hbmwire::emulation::cuda
