// SPDX-License-Identifier: MIT
#include "memory/gaudi/block_table.hpp"

#include <iterator>
#include <utility>

#include "memory/generation.hpp"

namespace hbmwire::memory::gaudi {

Result<void> check_allocation(std::uint64_t size_bytes, const DeviceInfo& device) {
  if (size_bytes == 0) {
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::allocate, "size 0", device.name));
  }
  if (size_bytes > device.size_bytes) {
    return tl::make_unexpected(make_error(Errc::exhausted, Stage::allocate,
                                          "more than the card's memory", device.name,
                                          Hint::device_memory_exhausted));
  }
  return {};
}

Error outside_error(const DeviceInfo& device) noexcept {
  return make_error(Errc::invalid_argument, Stage::export_dmabuf,
                    "the range is not within one allocation of this process", device.name);
}

void BlockTable::insert(std::uint64_t address, std::uint64_t size_bytes, std::uint64_t handle) {
  const std::scoped_lock lock(mutex_);
  blocks_[address] = {.address = address,
                      .size_bytes = size_bytes,
                      .generation = next_generation(),
                      .handle = handle};
}

Block BlockTable::take(std::uint64_t address) {
  const std::scoped_lock lock(mutex_);
  return blocks_.extract(address).mapped();
}

std::optional<Block> BlockTable::find(std::uint64_t address, std::uint64_t length_bytes) {
  const std::scoped_lock lock(mutex_);
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin() || length_bytes == 0) return std::nullopt;
  const Block& block = std::prev(after)->second;
  const std::uint64_t offset = address - block.address;
  if (offset > block.size_bytes || length_bytes > block.size_bytes - offset) return std::nullopt;
  return block;
}

}  // namespace hbmwire::memory::gaudi
