// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace hbmwire::memory::gaudi {

/// The free ranges of [0, size). take() uses the first that fits; ranges that are given back are
/// joined with their neighbours. Not thread-safe.
class FreeRanges {
 public:
  explicit FreeRanges(std::uint64_t size) : free_{{0, size}} {}

  /// Takes `length` (> 0) bytes, and returns their offset; no value if there is no room.
  std::optional<std::uint64_t> take(std::uint64_t length);

  /// The arguments must be those of take(). Does not allocate.
  void give_back(std::uint64_t offset, std::uint64_t length) noexcept;

 private:
  std::map<std::uint64_t, std::uint64_t> free_;          // offset to length; no two touch
  std::multimap<std::uint64_t, std::uint64_t> returns_;  // a node for each taken range
};

}  // namespace hbmwire::memory::gaudi
