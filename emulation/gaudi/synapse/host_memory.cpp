// SPDX-License-Identifier: MIT
#include "emulation/gaudi/synapse/host_memory.hpp"

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <iterator>

#include "emulation/gaudi/abi/hl_thunk.h"

namespace hbmwire::emulation::gaudi {
namespace {

constexpr std::size_t kHostPage = 4096;

void* pointer_of(std::uint64_t address) { return std::bit_cast<void*>(address); }

}  // namespace

synStatus HostMemory::allocate(std::uint64_t bytes, void** buffer) {
  *buffer = nullptr;
  if (bytes == 0) return synSuccess;
  if (bytes > PTRDIFF_MAX) return synOutOfHostMemory;
  void* memory = std::aligned_alloc(kHostPage, (bytes + kHostPage - 1) / kHostPage * kHostPage);
  if (memory == nullptr) return synOutOfHostMemory;
  const synStatus status = add(std::bit_cast<std::uint64_t>(memory), bytes, true);
  if (status != synSuccess) {
    std::free(memory);
    return status;
  }
  *buffer = memory;
  return synSuccess;
}

synStatus HostMemory::free(const void* buffer) {
  if (buffer == nullptr) return synSuccess;
  const auto found = ranges_.find(std::bit_cast<std::uint64_t>(buffer));
  if (found == ranges_.end() || !found->second.owned) return synInvalidArgument;
  return remove(found);
}

// Mapping a mapped range again succeeds without effect. A partial overlap is refused.
synStatus HostMemory::map(std::uint64_t bytes, const void* buffer) {
  const auto address = std::bit_cast<std::uint64_t>(buffer);
  if (buffer == nullptr || bytes == 0 || bytes > UINT64_MAX - address) return synInvalidArgument;
  if (contains(address, bytes)) return synSuccess;
  const auto after = ranges_.lower_bound(address);
  if (after != ranges_.end() && after->first < address + bytes) return synInvalidArgument;
  if (after != ranges_.begin()) {
    const auto& [begin, range] = *std::prev(after);
    if (begin + range.bytes > address) return synInvalidArgument;
  }
  return add(address, bytes, false);
}

// As in the vendor's library, unmapping a range that is not mapped succeeds.
synStatus HostMemory::unmap(const void* buffer) {
  const auto found = ranges_.find(std::bit_cast<std::uint64_t>(buffer));
  if (found == ranges_.end()) return synSuccess;
  return found->second.owned ? synInvalidArgument : remove(found);
}

bool HostMemory::contains(std::uint64_t address, std::uint64_t bytes) const {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return false;
  const auto& [begin, range] = *std::prev(after);
  return address - begin <= range.bytes && bytes <= range.bytes - (address - begin);
}

synStatus HostMemory::add(std::uint64_t address, std::uint64_t bytes, bool owned) {
  const auto entry =
      ranges_.emplace(address, Range{.bytes = bytes, .device_address = 0, .owned = owned}).first;
  entry->second.device_address = hlthunk_host_memory_map(fd_, pointer_of(address), 0, bytes);
  if (entry->second.device_address != 0) return synSuccess;
  const bool bad_argument = errno == EINVAL || errno == EFAULT;
  ranges_.erase(entry);
  return bad_argument ? synInvalidArgument : synFail;
}

synStatus HostMemory::remove(Ranges::iterator range) {
  if (hlthunk_memory_unmap(fd_, range->second.device_address) != 0) return synFail;
  if (range->second.owned) std::free(pointer_of(range->first));
  ranges_.erase(range);
  return synSuccess;
}

void HostMemory::clear() {
  for (const auto& [address, range] : ranges_) {
    hlthunk_memory_unmap(fd_, range.device_address);
    if (range.owned) std::free(pointer_of(address));
  }
  ranges_.clear();
}

}  // namespace hbmwire::emulation::gaudi
