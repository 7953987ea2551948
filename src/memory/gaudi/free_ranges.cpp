// SPDX-License-Identifier: MIT
#include "memory/gaudi/free_ranges.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hbmwire::memory::gaudi {

std::optional<std::uint64_t> FreeRanges::take(std::uint64_t length) {
  const auto found =
      std::ranges::find_if(free_, [&](const auto& range) { return range.second >= length; });
  if (found == free_.end()) return std::nullopt;
  returns_.emplace(0, 0);  // the node that give_back() will use
  const auto [offset, available] = *found;
  auto place = free_.extract(found);
  if (available > length) {
    place.key() = offset + length;
    place.mapped() = available - length;
    free_.insert(std::move(place));
  }
  return offset;
}

void FreeRanges::give_back(std::uint64_t offset, std::uint64_t length) noexcept {
  auto place = returns_.extract(returns_.begin());
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
  place.key() = offset;
  place.mapped() = length;
  free_.insert(std::move(place));
}

}  // namespace hbmwire::memory::gaudi
