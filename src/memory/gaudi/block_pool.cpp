// SPDX-License-Identifier: MIT
#include "memory/gaudi/block_pool.hpp"

#include <iterator>
#include <utility>

#include "base/guarded.hpp"
#include "memory/gaudi/block_table.hpp"
#include "memory/gaudi/card_driver.hpp"
#include "memory/generation.hpp"

namespace hbmwire::memory::gaudi {

BlockPool::~BlockPool() {
  // An allocation holds its domain, so none is left here. The driver refuses to unmap blocks
  // that are still exported, and the log says so.
  for (auto& [address, block] : blocks_) {
    block.dmabuf.reset();
    source_.give_block_back(block.driver);
  }
}

std::optional<std::uint64_t> BlockPool::place(Block& block, std::uint64_t size_bytes) {
  const auto offset = block.free.take(round_up(size_bytes, kExportPage));
  if (!offset) return std::nullopt;
  const std::uint64_t address = block.driver.address + *offset;
  or_undo(
      [&] {
        live_[address] = {
            .size_bytes = size_bytes, .generation = next_generation(), .block = &block};
      },
      [&] { block.free.give_back(*offset, round_up(size_bytes, kExportPage)); });
  ++block.live;
  return address;
}

Result<BlockPool::Block*> BlockPool::add_block(std::uint64_t size_bytes, bool shared) {
  auto block = source_.take_block(size_bytes);
  if (!block && block.error().code == Errc::exhausted) {
    give_empty_blocks_back(/*kept=*/0);
    block = source_.take_block(size_bytes);
  }
  if (!block) return tl::make_unexpected(block.error());
  return or_undo(
      [&] {
        return &blocks_
                    .emplace(block->address,
                             Block{*block, shared, FreeRanges(block->size_bytes), 0, nullptr, {}})
                    .first->second;
      },
      [&] { source_.give_block_back(*block); });
}

Result<std::uint64_t> BlockPool::allocate(std::uint64_t size_bytes) {
  HBMWIRE_TRY(check_allocation(size_bytes, device_));
  const std::uint64_t page = device_.page_bytes;
  const bool shared = size_bytes <= page / 2;
  const std::scoped_lock lock(mutex_);
  if (shared) {
    for (auto& [base, block] : blocks_) {
      if (!block.shared) continue;
      if (const auto address = place(block, size_bytes)) return *address;
    }
  }
  HBMWIRE_TRY_ASSIGN(Block * block,
                     add_block(shared ? page : round_up(size_bytes, kExportPage), shared));
  return *place(*block, size_bytes);
}

void BlockPool::free(std::uint64_t address) noexcept {
  const std::scoped_lock lock(mutex_);
  const Live gone = live_.extract(address).mapped();
  Block& block = *gone.block;
  block.free.give_back(address - block.driver.address, round_up(gone.size_bytes, kExportPage));
  if (--block.live != 0) return;
  block.dmabuf.reset();
  give_empty_blocks_back(/*kept=*/1);
}

void BlockPool::give_empty_blocks_back(unsigned kept) noexcept {
  for (auto at = blocks_.begin(); at != blocks_.end();) {
    const Block& block = at->second;
    const bool empty = block.live == 0 && block.last_dmabuf.expired();
    if (!empty || (block.shared && kept > 0)) {
      if (empty) --kept;
      ++at;
      continue;
    }
    const DriverBlock driver = block.driver;
    at = blocks_.erase(at);
    source_.give_block_back(driver);
  }
}

BlockPool::LiveAllocations::const_iterator BlockPool::holder_of(std::uint64_t address,
                                                                std::uint64_t length_bytes) const {
  const auto after = live_.upper_bound(address);
  if (after == live_.begin() || length_bytes == 0) return live_.end();
  const auto holder = std::prev(after);
  const std::uint64_t offset = address - holder->first;
  const std::uint64_t size = holder->second.size_bytes;
  return offset <= size && length_bytes <= size - offset ? holder : live_.end();
}

std::optional<AddressInfo> BlockPool::find(std::uint64_t address, std::uint64_t length_bytes) {
  const std::scoped_lock lock(mutex_);
  const auto holder = holder_of(address, length_bytes);
  if (holder == live_.end()) return std::nullopt;
  return AddressInfo{.device = &device_,
                     .base_address = holder->first,
                     .size_bytes = holder->second.size_bytes,
                     .generation = holder->second.generation,
                     .path = Path::zero_copy,
                     .lifetime = Lifetime::allocation,
                     .refusal = {}};
}

Result<std::shared_ptr<const Fd>> BlockPool::dmabuf_of(Block& block) {
  if (!block.dmabuf) block.dmabuf = block.last_dmabuf.lock();
  if (!block.dmabuf) {
    HBMWIRE_TRY_ASSIGN(Fd fd, source_.export_block(block.driver));
    block.dmabuf = std::make_shared<const Fd>(std::move(fd));
    block.last_dmabuf = block.dmabuf;
  }
  return block.dmabuf;
}

Result<DmabufRange> BlockPool::export_range(std::uint64_t address, std::uint64_t length_bytes) {
  const std::scoped_lock lock(mutex_);
  const auto holder = holder_of(address, length_bytes);
  if (holder == live_.end()) return tl::make_unexpected(outside_error(device_));
  Block& block = *holder->second.block;
  HBMWIRE_TRY_ASSIGN(auto dmabuf, dmabuf_of(block));
  return DmabufRange{.fd = std::move(dmabuf),
                     .base_address = block.driver.address,
                     .offset_bytes = address - block.driver.address,
                     .length_bytes = length_bytes,
                     .generation = holder->second.generation};
}

}  // namespace hbmwire::memory::gaudi
