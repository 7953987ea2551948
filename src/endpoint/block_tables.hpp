// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hbmwire/blocks.hpp"

namespace hbmwire::detail {

/// Blocks that lie side by side in one piece of memory.
template <class Memory>
struct BlockArea {
  /// Whether `block` is one of them. A number before `first` wraps around, and is too large.
  [[nodiscard]] bool has(std::uint64_t block) const noexcept { return block - first < blocks; }

  std::uint64_t first = 0;  // the number of its first block
  std::uint64_t blocks = 0;
  std::uint64_t offset_bytes = 0;  // of the first block in `memory`
  Memory memory;
};

/// The areas of a block table, all with blocks of one length. `Memory`: Region or RemoteRegion.
template <class Memory>
struct BlockAreas {
  using Area = BlockArea<Memory>;

  /// The area that `block`, which must be within the table, lies in.
  [[nodiscard]] const Area& area_of(std::uint64_t block) const noexcept {
    return *(std::ranges::upper_bound(areas, block, {}, &Area::first) - 1);
  }

  [[nodiscard]] std::uint64_t bytes_of(const Area& area) const noexcept {
    return area.blocks * block_bytes;
  }

  std::uint64_t block_bytes = 0;
  std::uint64_t size = 0;  // number of blocks
  std::vector<Area> areas;
};

struct BlockTableState : BlockAreas<Region> {};

struct RemoteBlockTableState : BlockAreas<RemoteRegion> {};

/// The greatest of the numbers; 0 if there are none.
[[nodiscard]] std::uint64_t greatest(const BlockNumbers& numbers) noexcept;

}  // namespace hbmwire::detail
