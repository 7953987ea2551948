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
    // All slots are looked at, without a branch: one at the slot that fits could not be foreseen,
    // and would keep the next look-up from beginning while this one waits for memory.
    const std::uint64_t key = key_of(address, access);
    const auto& slots = buckets_[index_of(key)].slots;
    std::uintptr_t found = 0;
#pragma GCC unroll 4
    for (const Slot& slot : slots)
      found |=
          -static_cast<std::uintptr_t>(slot.key == key) & std::bit_cast<std::uintptr_t>(slot.pin);
    auto* const pin = std::bit_cast<Pin*>(found);
    return pin != nullptr && pin->covers(address, length_bytes, access) ? pin : nullptr;
  }

  /// Grows with the number of addresses, up to some hundred thousand.
  void remember(std::uint64_t address, Pin* pin);

 private:
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kFirstBuckets = 64;
  static constexpr std::size_t kMostBuckets = std::size_t{1} << 18U;  // 16 MiB

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

  /// False when another one had to give way.
  bool remember_key(std::uint64_t key, Pin* pin);
  void grow();

  using Buckets = std::vector<Bucket, BigPageAllocator<Bucket>>;

  Buckets buckets_;
  unsigned shift_ = 64 - std::countr_zero(kFirstBuckets);
  unsigned next_way_ = 0;      // to be overwritten in a full bucket
  std::size_t given_way_ = 0;  // since the table has this size
};

}  // namespace hbmwire::detail
