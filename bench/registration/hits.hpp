// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/common/timing.hpp"
#include "bench/registration/caches.hpp"

namespace hbmwire::bench {

inline constexpr unsigned kHitsInAChunk = 500;

/// Steps through 0 to `count` - 1 in random order. One multiplication for each step, which both
/// sides pay.
class Steps {
 public:
  Steps(std::size_t count, std::uint32_t seed) : count_(count), state_(seed) {}

  std::size_t next() {
    // A linear congruential generator with the constants of "Numerical Recipes".
    state_ = state_ * 1664525U + 1013904223U;
    return static_cast<std::size_t>((static_cast<std::uint64_t>(state_) * count_) >> 32U);
  }

 private:
  std::uint64_t count_;
  std::uint32_t state_;
};

/// A chunk of hits: use_one() hits the piece at `index`, use_any() hits pieces in random order.
template <class Cache>
void use_one(const Cache& cache, const Pieces& pieces, std::size_t index) {
  const std::uint64_t address = pieces.address(index);
  for (unsigned i = 0; i < kHitsInAChunk; ++i) cache.use(address, pieces.piece_bytes());
}

template <class Cache>
void use_any(const Cache& cache, const Pieces& pieces, Steps& steps) {
  for (unsigned i = 0; i < kHitsInAChunk; ++i)
    cache.use(pieces.address(steps.next()), pieces.piece_bytes());
}

/// Registers all pieces.
template <class Cache>
void fill(const Cache& cache, const Pieces& pieces) {
  for (std::size_t i = 0; i < pieces.count(); ++i)
    cache.use(pieces.address(i), pieces.piece_bytes());
}

}  // namespace hbmwire::bench
