// SPDX-License-Identifier: MIT
#include "memory/cuda/blocks.hpp"

#include <iterator>
#include <mutex>

namespace hbmwire::memory::cuda {

void Blocks::insert(const Block& block) {
  const std::unique_lock lock(mutex_);
  blocks_[block.raw] = block;
}

Block Blocks::take(std::uint64_t address) {
  const std::unique_lock lock(mutex_);
  const auto found = std::prev(blocks_.upper_bound(address));  // Block::raw is not above `address`
  const Block block = found->second;
  blocks_.erase(found);
  return block;
}

std::optional<Block> Blocks::around(std::uint64_t address) {
  const std::shared_lock lock(mutex_);
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return std::nullopt;
  const Block& block = std::prev(after)->second;
  if (address - block.raw >= block.raw_bytes) return std::nullopt;
  return block;
}

}  // namespace hbmwire::memory::cuda
