// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mover/mover.hpp"

namespace hbmwire::detail {

/// The movers of an endpoint, in the order in which they are asked. A put or get that none takes
/// goes by the NIC alone.
class MoverTable {
 public:
  /// Adds a mover that is asked after the others.
  void add(Mover& mover) {
    rows_.push_back(&mover);
    // One byte less than the mover is asked about, or 0 if it is asked about everything.
    most_plain_ = std::min(most_plain_, std::max<std::uint64_t>(mover.asked_from(), 1) - 1);
  }

  /// Adds a mover that is asked before the others.
  void add_first(Mover& mover) {
    add(mover);
    std::rotate(rows_.begin(), rows_.end() - 1, rows_.end());
  }

  /// Between two plain paths, at most this many bytes go by the NIC.
  [[nodiscard]] std::uint64_t most_plain() const noexcept { return most_plain_; }

  /// The first mover that takes `move`; null: none does.
  [[nodiscard]] Mover* find(const EndpointState& endpoint, const Move& move) const {
    return find_from(rows_.begin(), endpoint, move);
  }

  /// The first one after `mover` that takes `move`; null: none does.
  [[nodiscard]] Mover* find_after(const Mover& mover, const EndpointState& endpoint,
                                  const Move& move) const {
    return find_from(std::ranges::find(rows_, &mover) + 1, endpoint, move);
  }

  void cancel(EndpointState& endpoint) const noexcept {
    for (Mover* const mover : rows_) mover->cancel(endpoint);
  }

 private:
  using Rows = std::vector<Mover*>;

  [[nodiscard]] Mover* find_from(Rows::const_iterator from, const EndpointState& endpoint,
                                 const Move& move) const {
    const auto taker = std::find_if(
        from, rows_.end(), [&](const Mover* mover) { return mover->takes(endpoint, move); });
    return taker == rows_.end() ? nullptr : *taker;
  }

  std::uint64_t most_plain_ = ~std::uint64_t{0};
  Rows rows_;
};

}  // namespace hbmwire::detail
