// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>

namespace hbmwire::memory::host {

/// A range of addresses.
struct AddressRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  ///< the first one behind it

  bool operator==(const AddressRange&) const = default;
};

/// All there are: what is said when it is not known which.
inline constexpr AddressRange kAllAddresses{0, ~std::uint64_t{0}};

[[nodiscard]] constexpr bool overlap(AddressRange a, AddressRange b) noexcept {
  return a.begin < b.end && b.begin < a.end;
}

/// What both have; empty (begin == end) if nothing.
[[nodiscard]] constexpr AddressRange common(AddressRange a, AddressRange b) noexcept {
  const std::uint64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

/// The whole pages that the range touches. `page_bytes` is a power of two.
[[nodiscard]] constexpr AddressRange whole_pages(AddressRange range,
                                                 std::uint64_t page_bytes) noexcept {
  return {range.begin & ~(page_bytes - 1), (range.end + page_bytes - 1) & ~(page_bytes - 1)};
}

}  // namespace hbmwire::memory::host
