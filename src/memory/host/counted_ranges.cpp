// SPDX-License-Identifier: MIT
#include "memory/host/counted_ranges.hpp"

namespace hbmwire::memory::host {

void CountedRanges::add(AddressRange range) {
  if (range.begin >= range.end) return;
  const auto begin = step_at(range.begin);
  const auto end = step_at(range.end);
  ++begin->second.ends;
  ++end->second.ends;
  for (auto step = begin; step != end; ++step) ++step->second.count;
}

// Splits the step that contains the address: both parts keep its count.
CountedRanges::Steps::iterator CountedRanges::step_at(std::uint64_t address) {
  const auto next = steps_.lower_bound(address);
  if (next != steps_.end() && next->first == address) return next;
  const std::uint64_t count = next == steps_.begin() ? 0 : std::prev(next)->second.count;
  return steps_.emplace_hint(next, address, Step{count, 0});
}

void CountedRanges::leave(Steps::iterator step) noexcept {
  if (--step->second.ends == 0) steps_.erase(step);
}

}  // namespace hbmwire::memory::host
