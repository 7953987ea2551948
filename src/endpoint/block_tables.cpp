// SPDX-License-Identifier: MIT
#include "endpoint/block_tables.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/guarded.hpp"
#include "base/internals.hpp"

namespace hbmwire {

namespace {

std::uint64_t bytes_of(const Region& region) noexcept { return region.size_bytes(); }

std::uint64_t bytes_of(const RemoteRegion& region) noexcept { return region.length_bytes(); }

/// Makes the state of a table of these slices, local or remote.
template <class State, class Slice>
Result<std::shared_ptr<const State>> cut(std::span<const Slice> slices, std::uint64_t block_bytes) {
  const auto refuse = [](const char* why) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure, why));
  };
  if (slices.empty()) return refuse("a block table of no area");
  if (block_bytes == 0) return refuse("a block of no bytes");
  auto table = std::make_shared<State>();
  table->block_bytes = block_bytes;
  for (const Slice& slice : slices) {
    if (slice.region == nullptr) return refuse("an area of no region");
    const std::uint64_t size = bytes_of(*slice.region);
    if (slice.offset_bytes > size || slice.length_bytes > size - slice.offset_bytes)
      return refuse("an area leaves its region");
    if (slice.length_bytes == 0 || slice.length_bytes % block_bytes != 0)
      return refuse("an area is no whole number of blocks");
    table->areas.push_back(
        {table->size, slice.length_bytes / block_bytes, slice.offset_bytes, *slice.region});
    table->size += table->areas.back().blocks;
  }
  return std::shared_ptr<const State>(std::move(table));
}

template <class Number>
std::uint64_t greatest_of(const Number* numbers, std::size_t size) noexcept {
  // Compares in several lanes at a time: in a single chain each step would wait for the step before
  // it.
  constexpr std::size_t kLanes = 8;
  std::array<Number, kLanes> most{};
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      most[lane] = std::max(most[lane], numbers[i + lane]);
  }
  for (; i < size; ++i) most[0] = std::max(most[0], numbers[i]);
  return *std::ranges::max_element(most);
}

}  // namespace

std::uint64_t detail::greatest(const BlockNumbers& numbers) noexcept {
  return numbers.wide ? greatest_of(static_cast<const std::uint64_t*>(numbers.first), numbers.size)
                      : greatest_of(static_cast<const std::uint32_t*>(numbers.first), numbers.size);
}

BlockTable::BlockTable(std::shared_ptr<const detail::BlockTableState> state) noexcept
    : state_(std::move(state)) {}

Result<BlockTable> BlockTable::create(std::span<const Slice> areas, std::uint64_t block_bytes) {
  return guarded(Stage::configure, [&]() -> Result<BlockTable> {
    HBMWIRE_TRY_ASSIGN(auto state, cut<detail::BlockTableState>(areas, block_bytes));
    return handle_of<BlockTable>(std::move(state));
  });
}

std::uint64_t BlockTable::block_bytes() const noexcept { return state_->block_bytes; }

std::uint64_t BlockTable::size() const noexcept { return state_->size; }

RemoteBlockTable::RemoteBlockTable(
    std::shared_ptr<const detail::RemoteBlockTableState> state) noexcept
    : state_(std::move(state)) {}

Result<RemoteBlockTable> RemoteBlockTable::create(std::span<const RemoteSlice> areas,
                                                  std::uint64_t block_bytes) {
  return guarded(Stage::configure, [&]() -> Result<RemoteBlockTable> {
    HBMWIRE_TRY_ASSIGN(auto state, cut<detail::RemoteBlockTableState>(areas, block_bytes));
    return handle_of<RemoteBlockTable>(std::move(state));
  });
}

Result<BlockTable> Region::blocks(std::uint64_t block_bytes) const {
  const Slice all = slice();
  return BlockTable::create({&all, 1}, block_bytes);
}

Result<RemoteBlockTable> RemoteRegion::blocks(std::uint64_t block_bytes) const {
  const RemoteSlice all = slice();
  return RemoteBlockTable::create({&all, 1}, block_bytes);
}

std::uint64_t RemoteBlockTable::block_bytes() const noexcept { return state_->block_bytes; }

std::uint64_t RemoteBlockTable::size() const noexcept { return state_->size; }

}  // namespace hbmwire
