// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hbmwire/blocks.hpp"

#include "memory.hpp"

namespace hbmwire::python {

/// A table of blocks, and the regions that it needs. Immutable.
struct HeldTable {
  BlockTable table;
  std::vector<SharedRegion> regions;
};

/// hbmwire.BlockTable.
struct BlockTableObject {
  std::shared_ptr<const HeldTable> hold;
};

/// hbmwire.RemoteBlockTable.
struct RemoteBlockTableObject {
  std::shared_ptr<const RemoteBlockTable> hold;
};

/// Raise InvalidArgument.
[[nodiscard]] BlockTableObject block_table(const std::vector<SliceObject>& areas,
                                           std::uint64_t block_bytes);
[[nodiscard]] RemoteBlockTableObject remote_block_table(const std::vector<RemoteSliceObject>& areas,
                                                        std::uint64_t block_bytes);

/// Columns of numbers of a program's array, in memory that stays as it is.
struct Columns {
  std::vector<BlockNumbers> columns;
  std::shared_ptr<const void> keep;
};

/// `count` columns of an array of shape (N, count), of integers of 32 or 64 bits, or of an iterable
/// of rows. Copies. Raises TypeError, ValueError.
[[nodiscard]] Columns columns_of(py::handle array, std::size_t count);

/// The columns of block numbers: an array of shape (N, 2), or two arrays of shape (N,), which are
/// not copied.
[[nodiscard]] Columns pairs_of(py::handle pairs);

}  // namespace hbmwire::python
