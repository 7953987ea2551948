// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

#include "memory/host/pages.hpp"
#include "memory/range_table.hpp"

namespace hbmwire::memory::host {

/// An allocation.
struct Block {
  std::uint64_t generation = 0;
  const DeviceInfo* device = nullptr;
  std::weak_ptr<MemoryDomain> domain;
  Pages pages;
};

/// The state that the host domains of one context share: their allocations, and the descriptions of
/// their devices. Thread-safe.
class Memory {
 public:
  /// The result lives as long as this object.
  const DeviceInfo& describe(const HostMemoryOptions& options);

  /// Finds an allocation; no value if the address is in none. Returns an error if the range exceeds
  /// the allocation.
  Result<std::optional<AddressInfo>> find(std::uint64_t address, std::uint64_t length_bytes) const;

  RangeTable<Block> blocks;

 private:
  std::mutex mutex_;
  std::map<HostMemoryOptions, DeviceInfo> devices_;
};

/// The description of memory that the library has not allocated.
[[nodiscard]] AddressInfo foreign(const DeviceInfo& device, std::uint64_t address,
                                  std::uint64_t length_bytes);

/// Errors: Stage::open, those of check() in pages.hpp.
Result<std::shared_ptr<MemoryDomain>> open_domain(const HostMemoryOptions& options,
                                                  std::shared_ptr<Memory> memory);

/// Anonymous pages of this process, for the library's own use.
std::shared_ptr<MemoryDomain> make_domain();

}  // namespace hbmwire::memory::host
