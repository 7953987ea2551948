// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "registration/big_pages.hpp"
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
    // All slots are looked at: a branch at the one that fits could not be foreseen, and would keep
    // the next look-up from beginning while this one waits for memory.
    const std::uint64_t key = key_of(address, access);
    Pin* pin = nullptr;
    for (const Slot& slot : buckets_[index_of(key)].slots) pin = slot.key == key ? slot.pin : pin;
    return pin != nullptr && pin->covers(address, length_bytes, access) ? pin : nullptr;
  }

  void remember(std::uint64_t address, Pin* pin);

  /// Makes room for as many addresses, two thirds of a bucket each.
  void make_room_for(std::size_t addresses);

 private:
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kFirstBuckets = 64;

  struct Slot {
    std::uint64_t key = 0;
    Pin* pin = nullptr;
  };

  struct alignas(64) Bucket {
    std::array<Slot, kWays> slots;
  };

  static_assert(sizeof(Bucket) == 64);

  // Not one to one, which the pin makes up for.
  static std::uint64_t key_of(std::uint64_t address, Access access) noexcept {
    return address ^ (static_cast<std::uint64_t>(access) << 60U);
  }

  [[nodiscard]] std::size_t index_of(std::uint64_t key) const noexcept {
    // Fibonacci hashing: neighbours and powers of two are spread alike.
    return (key * 0x9e3779b97f4a7c15ULL) >> shift_;
  }

  void remember_key(std::uint64_t key, Pin* pin);

  using Buckets = std::vector<Bucket, BigPageAllocator<Bucket>>;

  Buckets buckets_;
  unsigned shift_ = 64 - std::countr_zero(kFirstBuckets);
  unsigned next_way_ = 0;  // to be overwritten in a full bucket
};

}  // namespace hbmwire::detail
