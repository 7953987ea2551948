// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "hbmwire/memory.hpp"

namespace hbmwire::memory::gaudi {

/// One live allocation of a card.
struct Block {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t generation = 0;
  std::uint64_t handle = 0;        ///< what the vendor's free function wants
  std::weak_ptr<const Fd> dmabuf;  ///< its export, as long as anybody uses it
};

/// What this process has allocated on one card, by address. Thread-safe where it says so.
class BlockTable {
 public:
  explicit BlockTable(const DeviceInfo& device) : device_(device) {}

  /// Whether an allocation of this size is worth asking the card for.
  [[nodiscard]] Result<void> check_size(std::uint64_t size_bytes) const;

  /// Thread-safe.
  void insert(std::uint64_t address, std::uint64_t size_bytes, std::uint64_t handle);

  /// Forgets the block at exactly that address. Thread-safe.
  Block take(std::uint64_t address);

  /// The block that holds all of [address, address + length_bytes). With `mutex()` held.
  Result<Block*> find(std::uint64_t address, std::uint64_t length_bytes);

  /// MemoryDomain::find(). Thread-safe.
  std::optional<AddressInfo> info(std::uint64_t address, std::uint64_t length_bytes);

  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }

 private:
  const DeviceInfo& device_;
  std::mutex mutex_;
  std::map<std::uint64_t, Block> blocks_;
  std::uint64_t next_generation_ = 1;
};

}  // namespace hbmwire::memory::gaudi
