// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::memory::gaudi {

/// Whether the card can be asked for an allocation of this size.
[[nodiscard]] Result<void> check_allocation(std::uint64_t size_bytes, const DeviceInfo& device);

/// The error of a range that is in no allocation.
[[nodiscard]] Error outside_error(const DeviceInfo& device) noexcept;

/// One live allocation on a card.
struct Block {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t generation = 0;
  std::uint64_t handle = 0;  ///< for the vendor's free function
};

/// This process's allocations on one card by SynapseAI, by address. Thread-safe.
class BlockTable {
 public:
  void insert(std::uint64_t address, std::uint64_t size_bytes, std::uint64_t handle);

  /// Removes the block at exactly that address.
  Block take(std::uint64_t address);

  /// The block that holds all of [address, address + length_bytes).
  std::optional<Block> find(std::uint64_t address, std::uint64_t length_bytes);

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, Block> blocks_;
};

}  // namespace hbmwire::memory::gaudi
