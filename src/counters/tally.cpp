// SPDX-License-Identifier: MIT
#include "counters/tally.hpp"

#include <algorithm>
#include <bit>

namespace hbmwire::counters {

TrafficBlock::Cell& cell_of(TrafficBlock& block, PackedLabels labels) noexcept {
  TrafficBlock::Cell* alike = &block.cells.back();
  TransferLabels wanted;
  TransferLabels had;
  static_cast<void>(labels.unpack(wanted));
  for (TrafficBlock::Cell& cell : block.cells) {
    if (cell.labels.value() == labels.word()) return cell;
    if (cell.labels.value() == 0) {
      cell.labels.set(labels.word());
      return cell;
    }
    if (PackedLabels(cell.labels.value()).unpack(had) && had.kind == wanted.kind) alike = &cell;
  }
  return *alike;
}

void merge(TrafficBlock& into, const TrafficBlock& from) noexcept {
  for (const TrafficBlock::Cell& cell : from.cells) {
    if (cell.labels.value() == 0) break;
    TrafficBlock::Cell& same = cell_of(into, PackedLabels(cell.labels.value()));
    same.operations.add(cell.operations.value());
    same.bytes.add(cell.bytes.value());
  }
  for (std::size_t i = 0; i < from.failures.size(); ++i)
    into.failures[i].add(from.failures[i].value());
  into.started.add(from.started.value());
  into.queued.add(from.queued.value());
  into.credit_waits.add(from.credit_waits.value());
  into.broken.add(from.broken.value());
}

void tally_time(std::span<TimesBlock* const> blocks, PackedLabels labels,
                std::uint64_t elapsed_ns) noexcept {
  // The first bucket holds times up to 2^7 ns, the second one those up to 2^8 ns. `power`: that of
  // the least power of two that is not below the time.
  const auto power = static_cast<std::size_t>(std::bit_width(elapsed_ns == 0 ? 0 : elapsed_ns - 1));
  const std::size_t bucket = power <= 7 ? 0 : std::min(power - 7, kTimeBuckets - 1);
  for (TimesBlock* const block : blocks) {
    for (TimesBlock::Series& series : block->series) {
      if (series.labels.value() == 0) series.labels.set(labels.word());
      if (series.labels.value() != labels.word()) continue;
      series.sum_ns.add(elapsed_ns);
      series.transfers[bucket].add(1);
      return;
    }
  }
}

}  // namespace hbmwire::counters
