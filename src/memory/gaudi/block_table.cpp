// SPDX-License-Identifier: MIT
#include "memory/gaudi/block_table.hpp"

#include <utility>

namespace hbmwire::memory::gaudi {

Result<void> BlockTable::check_size(std::uint64_t size_bytes) const {
  if (size_bytes == 0) {
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::allocate, "size 0", device_.name));
  }
  if (size_bytes > device_.size_bytes) {
    return tl::make_unexpected(make_error(Errc::exhausted, Stage::allocate,
                                          "more than the card's memory", device_.name,
                                          Hint::device_memory_exhausted));
  }
  return {};
}

void BlockTable::insert(std::uint64_t address, std::uint64_t size_bytes, std::uint64_t handle) {
  const std::scoped_lock lock(mutex_);
  blocks_[address] = {.address = address,
                      .size_bytes = size_bytes,
                      .generation = next_generation_++,
                      .handle = handle,
                      .dmabuf = {}};
}

Block BlockTable::take(std::uint64_t address) {
  const std::scoped_lock lock(mutex_);
  return std::move(blocks_.extract(address).mapped());
}

Result<Block*> BlockTable::find(std::uint64_t address, std::uint64_t length_bytes) {
  const auto after = blocks_.upper_bound(address);
  if (after != blocks_.begin() && length_bytes != 0) {
    Block& block = std::prev(after)->second;
    const std::uint64_t offset = address - block.address;
    if (offset <= block.size_bytes && length_bytes <= block.size_bytes - offset) return &block;
  }
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::export_dmabuf,
                                        "the range is not within one allocation of this process",
                                        device_.name));
}

std::optional<AddressInfo> BlockTable::info(std::uint64_t address, std::uint64_t length_bytes) {
  const std::scoped_lock lock(mutex_);
  const auto block = find(address, length_bytes);
  if (!block) return std::nullopt;
  return AddressInfo{.device = &device_,
                     .base_address = (*block)->address,
                     .size_bytes = (*block)->size_bytes,
                     .generation = (*block)->generation,
                     .path = Path::zero_copy,
                     .refusal = {}};
}

}  // namespace hbmwire::memory::gaudi
