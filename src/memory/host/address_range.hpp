// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>

namespace hbmwire::memory::host {

/// A range of addresses.
struct AddressRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  ///< one past the last

  bool operator==(const AddressRange&) const = default;
};

/// All addresses: reported if it is unknown which ones have changed.
inline constexpr AddressRange kAllAddresses{0, ~std::uint64_t{0}};

[[nodiscard]] constexpr bool overlap(AddressRange a, AddressRange b) noexcept {
  return a.begin < b.end && b.begin < a.end;
}

/// The intersection; empty (begin == end) if there is none.
[[nodiscard]] constexpr AddressRange common(AddressRange a, AddressRange b) noexcept {
  const std::uint64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

/// All pages that the range touches. `page_bytes` must be a power of two.
[[nodiscard]] constexpr AddressRange whole_pages(AddressRange range,
                                                 std::uint64_t page_bytes) noexcept {
  return {range.begin & ~(page_bytes - 1), (range.end + page_bytes - 1) & ~(page_bytes - 1)};
}

}  // namespace hbmwire::memory::host
