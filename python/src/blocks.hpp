// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hbmwire/blocks.hpp"

#include "memory.hpp"

namespace hbmwire::python {

/// A block table with the regions that it needs. Immutable.
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

/// Both raise InvalidArgument.
[[nodiscard]] BlockTableObject block_table(const std::vector<SliceObject>& areas,
                                           std::uint64_t block_bytes);
[[nodiscard]] RemoteBlockTableObject remote_block_table(const std::vector<RemoteSliceObject>& areas,
                                                        std::uint64_t block_bytes);

/// Columns of numbers from a program's array. `keep` keeps their memory unchanged.
struct Columns {
  std::vector<BlockNumbers> columns;
  std::shared_ptr<const void> keep;
};

/// `count` columns of an array of shape (N, count) of 32-bit or 64-bit integers, or of an iterable
/// of rows. Copies them. Raises TypeError, ValueError.
[[nodiscard]] Columns columns_of(py::handle array, std::size_t count);

/// The columns of block numbers: an array of shape (N, 2), which is copied, or two arrays of shape
/// (N,), which are not.
[[nodiscard]] Columns pairs_of(py::handle pairs);

}  // namespace hbmwire::python
