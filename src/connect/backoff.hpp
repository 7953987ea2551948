// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/random.hpp"

namespace hbmwire::detail {

/// The pauses between attempts to connect: exponential backoff with full jitter. Without it, many
/// peers that were refused at the same moment would come back at the same moment.
class Backoff {
 public:
  /// The longest pause.
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::seconds(1);

  /// The pause before the first attempt of a reconnect, since other peers may have lost the same
  /// process at the same moment. Random, up to kLongest or a quarter of `left`, whichever is less.
  [[nodiscard]] static std::chrono::nanoseconds before_reconnect(
      std::chrono::nanoseconds left) noexcept {
    return up_to(std::min(kLongest, left / 4));
  }

  /// The pause before the next attempt.
  [[nodiscard]] std::chrono::nanoseconds next() noexcept {
    const auto most = most_;
    most_ = std::min(kLongest, 2 * most_);
    return up_to(most);
  }

 private:
  [[nodiscard]] static std::chrono::nanoseconds up_to(std::chrono::nanoseconds most) noexcept {
    const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(most.count(), 0));
    return std::chrono::nanoseconds(static_cast<std::int64_t>(random_number() % (count + 1)));
  }

  std::chrono::nanoseconds most_ = std::chrono::milliseconds(20);
};

}  // namespace hbmwire::detail
