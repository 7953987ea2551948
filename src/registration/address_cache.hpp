// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "registration/big_pages.hpp"
#include "registration/reference_arena.hpp"
#include "registration/registration_reference.hpp"

namespace hbmwire::detail {

/// Which reference served an address the last time: a hash table of buckets of half a cache line
/// each, of which an address has two. One thread.
class AddressCache {
 public:
  /// For references of this arena, which lives longer.
  explicit AddressCache(const ReferenceArena& references) : references_(references) {}

  /// Null when it is not in its first bucket. The reference covers the range, and may be forgotten,
  /// or of another access.
  [[nodiscard]] RegistrationReference* find(std::uint64_t address, std::uint64_t length_bytes,
                                            Access access) const noexcept {
    const Hash hash = hash_of(address, access);
    return find_in(buckets_[first_of(hash)], hash, address, length_bytes);
  }

  /// What find() has not found: the same of the second bucket.
  [[nodiscard]] RegistrationReference* find_away(std::uint64_t address, std::uint64_t length_bytes,
                                                 Access access) const noexcept {
    const Hash hash = hash_of(address, access);
    return find_in(buckets_[second_of(hash)], hash, address, length_bytes);
  }

  /// Grows with the number of addresses, up to a million; others are forgotten beyond that.
  void remember(std::uint64_t address, const RegistrationReference& reference);

  /// How many addresses there is room for.
  [[nodiscard]] std::size_t slots() const noexcept { return buckets_.size() * kWays; }

  /// How often the table was made anew.
  [[nodiscard]] std::size_t rebuilds() const noexcept { return rebuilds_; }

 private:
  using Hash = std::uint64_t;
  using Lanes = std::uint32_t __attribute__((vector_size(16)));

  static constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(std::uint32_t);
  static constexpr std::size_t kVectors = 2;
  static constexpr std::size_t kWays = kVectors * kLanes;
  static constexpr std::size_t kFirstBuckets = 32;
  static constexpr std::size_t kMostBuckets = std::size_t{1} << 18U;  // 8 MiB, and 16 of addresses

  // A slot is some bits of the hash, its tag, above the number of a reference; 0 is an empty one.
  static constexpr std::uint32_t kTagMask = ~(ReferenceArena::kUnits - 1);

  /// No two slots have the same tag, which find_in() relies on.
  struct alignas(32) Bucket {
    std::array<Lanes, kVectors> slots{};

    [[nodiscard]] std::uint32_t at(std::size_t way) const noexcept {
      return slots[way / kLanes][way % kLanes];
    }

    void set(std::size_t way, std::uint32_t slot) noexcept {
      slots[way / kLanes][way % kLanes] = slot;
    }
  };

  static_assert(sizeof(Bucket) == 32);

  using Addresses = std::array<std::uint64_t, kWays>;

  /// What is remembered of an address.
  struct Entry {
    std::uint64_t address;
    std::uint32_t unit;
    Hash hash;

    [[nodiscard]] std::uint32_t slot() const noexcept { return tag_of(hash) | unit; }
  };

  /// Regions lie in strides, often of powers of two: folded before each multiplication, so that
  /// no stride leaves the bits alike that tell the bucket.
  static Hash hash_of(std::uint64_t address, Access access) noexcept {
    constexpr std::uint64_t kMultiplier = 0xd6e8feb86659fd93;
    Hash hash = address ^ (static_cast<std::uint64_t>(access) << 56U);
    hash = (hash ^ (hash >> 32U)) * kMultiplier;
    return (hash ^ (hash >> 32U)) * kMultiplier;
  }

  static std::uint32_t tag_of(Hash hash) noexcept {
    return static_cast<std::uint32_t>(hash) & kTagMask;
  }

  /// By the upper half of the hash, of which the tag has nothing.
  [[nodiscard]] std::size_t first_of(Hash hash) const noexcept {
    return ((hash >> 32U) * count_) >> 32U;
  }

  [[nodiscard]] std::size_t second_of(Hash hash) const noexcept {
    return first_of(hash * 0x9e3779b97f4a7c15);
  }

  [[nodiscard]] RegistrationReference* find_in(const Bucket& bucket, Hash hash,
                                               std::uint64_t address,
                                               std::uint64_t length_bytes) const noexcept {
    const std::uint32_t unit = unit_in(bucket, tag_of(hash));
    if (unit == 0) [[unlikely]]
      return nullptr;
    RegistrationReference* const reference = references_.at(unit);
    if (!reference->covers(address, length_bytes)) [[unlikely]] {
      // Also another address with this tag.
      if (!covers_closely(*reference, address, length_bytes)) return nullptr;
    }
    return reference;
  }

  /// 0: not there. All slots are looked at, at once and without a branch: one at the slot that fits
  /// could not be foreseen, and would keep the next look-up from beginning while this one waits for
  /// memory. So would many instructions that wait, for which a CPU has little room: hence vectors.
  static std::uint32_t unit_in(const Bucket& bucket, std::uint32_t tag) noexcept {
    const auto fit = [tag](Lanes slots) {
      return std::bit_cast<Lanes>((slots & kTagMask) == tag) & slots;
    };
    const Lanes all = fit(bucket.slots[0]) | fit(bucket.slots[1]);
    const Lanes two = all | __builtin_shufflevector(all, all, 2, 3, 0, 1);
    return (two | __builtin_shufflevector(two, two, 1, 0, 3, 2))[0] & ~kTagMask;
  }

  /// False when another one was overwritten.
  bool put(const Entry& entry);
  /// False where the bucket is full, or another address has this tag there.
  bool put_in(std::size_t bucket, const Entry& entry);
  [[nodiscard]] bool has(std::size_t bucket, const Entry& entry) const noexcept;
  /// Moves one of a bucket to the other one that it has. False where none can go.
  bool make_way(std::size_t bucket);
  void set(std::size_t bucket, std::size_t way, const Entry& entry);
  [[nodiscard]] Entry entry_of(std::uint32_t slot, std::uint64_t address) const noexcept;
  /// Not out of date, as a slot becomes when its region goes and its reference is used anew.
  [[nodiscard]] bool is_alive(std::uint32_t slot, std::uint64_t address) const noexcept;
  /// Larger, or without what is out of date where that leaves room enough.
  void rebuild();

  using Buckets = std::vector<Bucket, BigPageAllocator<Bucket>>;

  const ReferenceArena& references_;
  Buckets buckets_ = Buckets(kFirstBuckets);
  std::uint64_t count_ = kFirstBuckets;  // of buckets
  std::vector<Addresses> addresses_ =
      std::vector<Addresses>(kFirstBuckets);  // of slots; no look-up reads them
  std::size_t next_way_ = 0;                  // to be overwritten where nothing else helps
  std::size_t away_ = 0;                      // put in second buckets since the last rebuild()
  std::size_t rebuilds_ = 0;
};

}  // namespace hbmwire::detail
