// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

namespace hbmwire::emulation {

/// A range of addresses or offsets, [begin, end).
struct AddressRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t bytes() const { return end - begin; }

  bool operator==(const AddressRange&) const = default;
};

constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) {
  return value / unit * unit;
}

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return round_down(value + unit - 1, unit);
}

/// The gaps in `range` that the `taken` ranges leave. These are unordered and lie within `range`.
std::vector<AddressRange> gaps(AddressRange range, std::vector<AddressRange> taken);

/// Whether [at, at + bytes) lies within [begin, begin + size). The computation does not overflow.
constexpr bool holds(std::uint64_t begin, std::uint64_t size, std::uint64_t at,
                     std::uint64_t bytes) {
  return at >= begin && at - begin <= size && bytes <= size - (at - begin);
}

}  // namespace hbmwire::emulation
