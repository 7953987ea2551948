// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

/// The tables of the shared state. Each has a counter `next` in Header, which goes round the table,
/// so that a number does not come again at once.
namespace hbmwire::emulation::nic {

/// Index of the next record that `is_free` says yes to, but 0, which means "none" everywhere; 0:
/// the table is full. Header::allocation is held.
template <typename Record, std::size_t N, typename IsFree>
std::uint32_t next_free(Record (&table)[N], std::uint32_t& next, IsFree is_free) {
  for (std::size_t tried = 0; tried < N; ++tried) {
    if (next == 2 * N) next = N;  // not below N again: all of the table has been touched
    const auto index = static_cast<std::uint32_t>(next++ % N);
    if (index != 0 && is_free(table[index])) return index;
  }
  return 0;
}

/// The records that were ever claimed, going by the table's counter `next`: walks must not touch
/// the whole sparse table.
template <typename Record, std::size_t N>
std::span<Record> touched(Record (&table)[N], std::uint32_t next) {
  return {table, std::min<std::size_t>(next, N)};
}

}  // namespace hbmwire::emulation::nic
