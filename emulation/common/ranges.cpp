// SPDX-License-Identifier: MIT
#include "emulation/common/ranges.hpp"

#include <algorithm>

namespace hbmwire::emulation {

std::vector<AddressRange> gaps(AddressRange range, std::vector<AddressRange> taken) {
  std::ranges::sort(taken, {}, &AddressRange::begin);
  std::vector<AddressRange> free;
  for (const auto& block : taken) {
    if (block.begin > range.begin) free.push_back({range.begin, block.begin});
    range.begin = std::max(range.begin, block.end);
  }
  if (range.begin < range.end) free.push_back(range);
  return free;
}

}  // namespace hbmwire::emulation
