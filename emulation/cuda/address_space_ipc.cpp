// SPDX-License-Identifier: MIT
//
// AddressSpace: memory that is shared with other processes, and memory that they share.
#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "emulation/common/ranges.hpp"
#include "emulation/cuda/address_space.hpp"
#include "emulation/cuda/reserved_addresses.hpp"

namespace hbmwire::emulation::cuda {
namespace {

CUresult result_of_sharing(int error) {
  return error == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_MAP_FAILED;
}

}  // namespace

// Every call for an allocation returns the same handle. A later allocation at the same address gets
// another one.
CUresult AddressSpace::offer(std::uint64_t address, ShareKey& key, int& device) {
  const std::unique_lock lock(mutex_);
  Allocation* const allocation = allocation_at(address);
  if (allocation == nullptr || allocation->origin != Origin::alloc) return CUDA_ERROR_INVALID_VALUE;
  if (!allocation->shared_as) {
    ShareKey made{};
    const int error =
        allocation->physical->memory().share({allocation->offset, allocation->bytes}, made);
    if (error != 0) return result_of_sharing(error);
    allocation->shared_as = made;
  }
  key = *allocation->shared_as;
  device = allocation->physical->device();
  return CUDA_SUCCESS;
}

/// The allocation that a context of this GPU has opened by the key, of which there is at most one;
/// or null.
Allocation* AddressSpace::opened_by(const OpenRequest& request) {
  const auto found = std::ranges::find_if(allocations_, [&](const auto& entry) {
    const Allocation& one = entry.second;
    return one.origin == Origin::ipc && one.shared_as == request.key &&
           one.opener == request.opener;
  });
  return found == allocations_.end() ? nullptr : &found->second;
}

// In a process, only one context of each GPU may open the memory that another process shares of one
// GPU.
bool AddressSpace::another_context_has(const OpenRequest& request, const Physical& physical) {
  return std::ranges::any_of(allocations_, [&](const auto& entry) {
    const Allocation& other = entry.second;
    return other.origin == Origin::ipc && &other.physical->memory() == &physical.memory() &&
           other.physical->attachment()->owner == physical.attachment()->owner &&
           other.opener == request.opener && other.context != request.context;
  });
}

CUresult AddressSpace::open(const OpenRequest& request, std::uint64_t& address) {
  const std::unique_lock lock(mutex_);
  if (Allocation* const known = opened_by(request)) {
    if (known->context != request.context) return CUDA_ERROR_ALREADY_MAPPED;
    ++known->opened;
    address = known->address;
    return CUDA_SUCCESS;
  }
  int error = 0;
  auto physical = Physical::attach(*request.memory, request.device, request.key, error);
  if (!physical) return result_of_sharing(error);
  if (physical->attachment()->own || another_context_has(request, *physical))
    return CUDA_ERROR_INVALID_CONTEXT;
  Region region;
  region.origin = Origin::ipc;
  region.context = request.context;
  region.bytes = round_up(physical->range().length_bytes, kHostPage);
  region.address = reserve_addresses(region.bytes, kGranule);
  if (region.address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  address = region.address;
  const AllocationRequest attached{request.memory, request.device, request.context,
                                   physical->range().length_bytes};
  region.physical = std::move(physical);
  Region& kept = regions_.emplace(address, std::move(region)).first->second;
  record(attached, kept, address);
  Allocation& made = allocations_.at(address);
  made.shared_as = request.key;
  made.opener = request.opener;
  made.opened = 1;
  return CUDA_SUCCESS;
}

CUresult AddressSpace::close(std::uint64_t address) {
  const std::unique_lock lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.origin != Origin::ipc)
    return CUDA_ERROR_INVALID_VALUE;
  if (--found->second.opened == 0) erase(found);
  return CUDA_SUCCESS;
}

/// Prevents further openings of an allocation that is about to be freed. A process that has it open
/// keeps it, so its part of a block is not reused until then.
void AddressSpace::withdraw(const Allocation& allocation, Region& region) {
  if (allocation.origin != Origin::alloc || !allocation.shared_as) return;
  if (allocation.physical->memory().unshare(*allocation.shared_as))
    region.withdrawn.emplace(allocation.address, allocation.bytes);
}

void AddressSpace::take_back_closed(Region& block) {
  std::erase_if(block.withdrawn, [&](const auto& entry) {
    const std::uint64_t offset =
        block.physical->range().offset_bytes + (entry.first - block.address);
    return !block.physical->memory().is_attached({offset, entry.second});
  });
}

}  // namespace hbmwire::emulation::cuda
