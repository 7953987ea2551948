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

/// What the domains of one context share: what they have allocated, and how each is described.
/// Thread-safe.
class Memory {
 public:
  /// Lives as long as this object.
  const DeviceInfo& describe(const HostMemoryOptions& options);

  /// Of an allocation; nothing when the address is in none. An error when the range leaves it.
  Result<std::optional<AddressInfo>> find(std::uint64_t address, std::uint64_t length_bytes) const;

  RangeTable<Block> blocks;

 private:
  std::mutex mutex_;
  std::map<HostMemoryOptions, DeviceInfo> devices_;
};

/// What is known of memory that we did not allocate.
[[nodiscard]] AddressInfo foreign(const DeviceInfo& device, std::uint64_t address,
                                  std::uint64_t length_bytes);

/// Errors: Stage::open, as check() in pages.hpp.
Result<std::shared_ptr<MemoryDomain>> open_domain(const HostMemoryOptions& options,
                                                  std::shared_ptr<Memory> memory);

/// Anonymous pages of this process, for the library's own use.
std::shared_ptr<MemoryDomain> make_domain();

}  // namespace hbmwire::memory::host
