// SPDX-License-Identifier: MIT
#include <algorithm>

#include "message/unexpected_pool.hpp"

namespace hbmwire::detail {

std::byte* UnexpectedPool::take(std::uint32_t units) noexcept {
  if (units > free_) return nullptr;
  const auto size = static_cast<std::uint32_t>(taken_.size());
  std::uint32_t run = 0;
  // Once around, from where the last one was found: what was taken first goes first, mostly.
  std::uint32_t at = from_;
  for (std::uint32_t looked = 0; looked < size + units; ++looked, ++at) {
    if (at == size) at = run = 0;
    run = taken_[at] != 0 ? 0 : run + 1;
    if (run != units) continue;
    const std::uint32_t begin = at + 1 - units;
    std::fill_n(taken_.begin() + begin, units, std::uint8_t{1});
    from_ = at + 1;
    free_ -= units;
    return memory_ + begin * kUnitBytes;
  }
  return nullptr;
}

void UnexpectedPool::give_back(const std::byte* at, std::uint32_t units) noexcept {
  const auto begin = static_cast<std::uint64_t>(at - memory_) / kUnitBytes;
  std::fill_n(taken_.begin() + static_cast<std::ptrdiff_t>(begin), units, std::uint8_t{0});
  free_ += units;
}

}  // namespace hbmwire::detail
