// SPDX-License-Identifier: MIT
#include "memory/gaudi/free_ranges.hpp"

#include <algorithm>
#include <iterator>

namespace hbmwire::memory::gaudi {

std::optional<std::uint64_t> FreeRanges::take(std::uint64_t length) {
  const auto found =
      std::ranges::find_if(free_, [&](const auto& range) { return range.second >= length; });
  if (found == free_.end()) return std::nullopt;
  const auto [offset, available] = *found;
  free_.erase(found);
  if (available > length) free_.emplace(offset + length, available - length);
  return offset;
}

void FreeRanges::give_back(std::uint64_t offset, std::uint64_t length) {
  auto after = free_.upper_bound(offset);
  if (after != free_.end() && offset + length == after->first) {
    length += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += length;
      return;
    }
  }
  free_.emplace(offset, length);
}

}  // namespace hbmwire::memory::gaudi
