// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "registration/big_pages.hpp"
#include "registration/pin.hpp"

namespace hbmwire::detail {

/// Pins, which stay where they are for as long as the arena lives.
class PinArena {
 public:
  Pin& add() {
    if (used_ == size_) {
      chunks_.emplace_back(std::clamp(2 * size_, kSmallest, kLargest));
      used_ = 0;
      size_ = chunks_.back().size();
    }
    ++count_;
    return chunks_.back()[used_++];
  }

  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  using Chunk = std::vector<Pin, BigPageAllocator<Pin>>;

  // A page, and a big page; from one to the other by doubling.
  static constexpr std::size_t kSmallest = 4096 / sizeof(Pin);
  static constexpr std::size_t kLargest = (std::size_t{2} << 20U) / sizeof(Pin);

  std::vector<Chunk> chunks_;
  std::size_t used_ = 0;  // of the last chunk
  std::size_t size_ = 0;
  std::size_t count_ = 0;
};

}  // namespace hbmwire::detail
