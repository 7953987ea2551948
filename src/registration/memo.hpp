// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "registration/pin.hpp"

namespace hbmwire::detail {

/// Which pin served an address the last time: a hash table of buckets of a cache line each, which
/// forgets when a bucket is full. One thread.
class Memo {
 public:
  Memo() : buckets_(kFirstBuckets) {}

  /// Null when it is not known. The pin may be another region's by now.
  [[nodiscard]] Pin* find(std::uint64_t address, std::uint64_t length_bytes,
                          Access access) const noexcept {
    for (const Slot& slot : buckets_[index_of(address)].slots) {
      if (slot.address == address && slot.pin != nullptr &&
          slot.pin->covers(address, length_bytes, access))
        return slot.pin;
    }
    return nullptr;
  }

  void remember(std::uint64_t address, Pin* pin);

  /// Makes room for as many addresses, two thirds of a bucket each.
  void make_room_for(std::size_t addresses);

 private:
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kFirstBuckets = 64;

  struct Slot {
    std::uint64_t address = 0;
    Pin* pin = nullptr;
  };

  struct alignas(64) Bucket {
    std::array<Slot, kWays> slots;
  };

  static_assert(sizeof(Bucket) == 64);

  [[nodiscard]] std::size_t index_of(std::uint64_t address) const noexcept {
    // Fibonacci hashing: neighbours and powers of two are spread alike.
    return (address * 0x9e3779b97f4a7c15ULL) >> shift_;
  }

  std::vector<Bucket> buckets_;
  unsigned shift_ = 64 - std::countr_zero(kFirstBuckets);
  unsigned next_way_ = 0;  // to be overwritten in a full bucket
};

}  // namespace hbmwire::detail
