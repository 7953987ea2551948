// SPDX-License-Identifier: MIT
#include <algorithm>

#include "message/unexpected_pool.hpp"

namespace hbmwire::detail {

std::uint32_t UnexpectedUnits::take(std::uint32_t units) noexcept {
  if (units > free_) return kNone;
  const auto size = static_cast<std::uint32_t>(taken_.size());
  std::uint32_t run = 0;
  // Searches once around, from where the last search ended: memory that was taken first is mostly
  // free first. `+ units`: a run may begin before `from_` and end behind it.
  std::uint32_t at = from_;
  for (std::uint32_t looked = 0; looked < size + units; ++looked, ++at) {
    if (at == size) at = run = 0;  // no run goes around the end
    run = taken_[at] != 0 ? 0 : run + 1;
    if (run != units) continue;
    const std::uint32_t begin = at + 1 - units;
    std::fill_n(taken_.begin() + begin, units, std::uint8_t{1});
    from_ = at + 1;
    free_ -= units;
    return begin;
  }
  return kNone;
}

void UnexpectedUnits::give_back(std::uint32_t first, std::uint32_t units) noexcept {
  std::fill_n(taken_.begin() + first, units, std::uint8_t{0});
  free_ += units;
}

UnexpectedMessage* UnexpectedPool::take(std::uint32_t units) noexcept {
  for (const auto& block : blocks_) {
    const std::uint32_t first = block->units.take(units);
    if (first == UnexpectedUnits::kNone) continue;
    UnexpectedMessage& record = block->records[first];
    record.bytes = block->memory.bytes + first * UnexpectedUnits::kUnitBytes;
    record.mover_key = block->memory.mover_key;
    record.units = units;
    record.buffer = nullptr;
    record.block = block.get();
    return &record;
  }
  wants_ = true;
  return nullptr;
}

void UnexpectedPool::give_back(UnexpectedMessage& message) noexcept {
  UnexpectedBlock& block = *message.block;
  block.units.give_back(static_cast<std::uint32_t>(&message - block.records.data()), message.units);
}

}  // namespace hbmwire::detail
