// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>

#include "memory/cuda/addresses.hpp"

namespace hbmwire::memory::cuda {

/// Memory that a domain has allocated: the driver's allocation, and the aligned part of it that was
/// given out.
struct Block {
  std::uint64_t raw = 0;  ///< as the driver returned it
  std::uint64_t raw_bytes = 0;
  std::uint64_t address = 0;  ///< aligned
  std::uint64_t size_bytes = 0;
  std::uint64_t generation = 0;

  [[nodiscard]] bool holds(std::uint64_t at, std::uint64_t length) const noexcept {
    return at >= address && at - address <= size_bytes && length <= size_bytes - (at - address);
  }
};

/// A domain's blocks, by address. Thread-safe.
class Blocks {
 public:
  void insert(const Block& block);

  /// Removes the block that was given out at exactly that address.
  Block take(std::uint64_t address);

  /// The block whose allocation contains the address, even if the address is before or after the
  /// part that was given out.
  std::optional<Block> around(std::uint64_t address);

 private:
  std::shared_mutex mutex_;
  std::map<std::uint64_t, Block> blocks_;  // by Block::raw
};

}  // namespace hbmwire::memory::cuda
