// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace hbmwire::memory::gaudi {

/// What is free of [0, size): ranges are taken where they fit first, and join their neighbours when
/// they are given back. Not thread-safe.
class FreeRanges {
 public:
  explicit FreeRanges(std::uint64_t size) : free_{{0, size}} {}

  /// Where `length` (> 0) bytes are free; nothing when there is no room.
  std::optional<std::uint64_t> take(std::uint64_t length);

  /// Exactly what take() gave. Allocates nothing.
  void give_back(std::uint64_t offset, std::uint64_t length) noexcept;

 private:
  std::map<std::uint64_t, std::uint64_t> free_;          // offset to length; no two touch
  std::multimap<std::uint64_t, std::uint64_t> returns_;  // a node for each of what is taken
};

}  // namespace hbmwire::memory::gaudi
