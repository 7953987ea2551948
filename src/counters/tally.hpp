// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>

#include "counters/block.hpp"

// How the thread that owns a block counts in it.
namespace hbmwire::counters {

/// The series with these labels, which is made where there is none. When all cells are taken: the
/// last one of the same kind of operation, so that every byte is counted; more series than that
/// have no endpoint's transfers.
[[nodiscard]] TrafficBlock::Cell& cell_of(TrafficBlock& block, PackedLabels labels) noexcept;

/// Counts operations of a series that is not the block's first one. `key`: as the data path tells
/// series from each other; `labels()` is called where no cell has this key.
template <class LabelsOf>
void tally_otherwise(TrafficBlock& block, std::uint64_t key, std::uint64_t bytes,
                     const LabelsOf& labels) noexcept {
  for (TrafficBlock::Cell& cell : block.cells) {
    if (cell.key.value() == key) return cell.count(bytes);
  }
  TrafficBlock::Cell& cell = cell_of(block, PackedLabels(labels()));
  if (cell.key.value() == 0) cell.key.set(key);
  cell.count(bytes);
}

/// An operation of so many bytes has succeeded.
template <class LabelsOf>
[[gnu::always_inline]] inline void tally(TrafficBlock& block, std::uint64_t key,
                                         std::uint64_t bytes, const LabelsOf& labels) noexcept {
  TrafficBlock::Cell& first = block.cells.front();
  if (first.key.value() == key) [[likely]]
    return first.count(bytes);
  return tally_otherwise(block, key, bytes, labels);
}

/// `from`'s counts are `into`'s as well from here on.
void merge(TrafficBlock& into, const TrafficBlock& from) noexcept;

/// A worker's times, in blocks that follow each other.
inline constexpr std::size_t kTimesBlocks = 8;

/// Puts the time of a transfer into its series of `blocks`; drops it where all have others.
void tally_time(std::span<TimesBlock* const> blocks, PackedLabels labels,
                std::uint64_t elapsed_ns) noexcept;

}  // namespace hbmwire::counters
