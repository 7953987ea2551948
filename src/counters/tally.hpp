// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>

#include "counters/block.hpp"

// Counting by the thread that owns a block.
namespace hbmwire::counters {

/// The series with these labels, added if there is none. If all cells are taken, returns the last
/// series of the same kind of operation, so that every byte is counted. An endpoint's transfers
/// never have that many series.
[[nodiscard]] TrafficBlock::Cell& cell_of(TrafficBlock& block, PackedLabels labels) noexcept;

/// Counts an operation of a series that is not the block's first one. `key` is the data path's name
/// for the series; `labels()` is called only if no cell has this key.
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

/// Counts a successful operation of `bytes` bytes.
template <class LabelsOf>
[[gnu::always_inline]] inline void tally(TrafficBlock& block, std::uint64_t key,
                                         std::uint64_t bytes, const LabelsOf& labels) noexcept {
  TrafficBlock::Cell& first = block.cells.front();
  if (first.key.value() == key) [[likely]]
    return first.count(bytes);
  return tally_otherwise(block, key, bytes, labels);
}

/// Adds `from`'s counts to `into`.
void merge(TrafficBlock& into, const TrafficBlock& from) noexcept;

/// The number of blocks for a worker's times.
inline constexpr std::size_t kTimesBlocks = 8;

/// Adds a transfer's time to its series in `blocks`. Drops it if all series are taken by others.
void tally_time(std::span<TimesBlock* const> blocks, PackedLabels labels,
                std::uint64_t elapsed_ns) noexcept;

}  // namespace hbmwire::counters
