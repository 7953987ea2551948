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

/// Remembers which reference served an address the last time. It is a hash table of buckets of half
/// a cache line each; each address has two buckets. For one thread.
class AddressCache {
 public:
  /// For references of this arena, which must live longer.
  explicit AddressCache(const ReferenceArena& references) : references_(references) {}

  /// Looks in the first bucket only; null if the address is not there. The reference covers the
  /// range, but may be forgotten or have another access.
  [[nodiscard]] RegistrationReference* find(std::uint64_t address, std::uint64_t length_bytes,
                                            Access access) const noexcept {
    const Hash hash = hash_of(address, access);
    return find_in(buckets_[first_of(hash)], hash, address, length_bytes);
  }

  /// Looks in the second bucket, after find() has found nothing.
  [[nodiscard]] RegistrationReference* find_away(std::uint64_t address, std::uint64_t length_bytes,
                                                 Access access) const noexcept {
    const Hash hash = hash_of(address, access);
    return find_in(buckets_[second_of(hash)], hash, address, length_bytes);
  }

  /// The table grows with the number of addresses, up to about a million. Beyond that, new
  /// addresses overwrite old ones.
  void remember(std::uint64_t address, const RegistrationReference& reference);

  /// The number of addresses that the table has room for.
  [[nodiscard]] std::size_t slots() const noexcept { return buckets_.size() * kWays; }

  /// The number of times that the table was rebuilt.
  [[nodiscard]] std::size_t rebuilds() const noexcept { return rebuilds_; }

 private:
  using Hash = std::uint64_t;
  using Lanes = std::uint32_t __attribute__((vector_size(16)));

  static constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(std::uint32_t);
  static constexpr std::size_t kVectors = 2;
  static constexpr std::size_t kWays = kVectors * kLanes;
  static constexpr std::size_t kFirstBuckets = 32;
  static constexpr std::size_t kMostBuckets = std::size_t{1} << 18U;  // 8 MiB of slots,
                                                                      // 16 MiB of addresses

  // A slot holds the tag, which is some bits of the hash, above the number of a reference; 0 is an
  // empty slot.
  static constexpr std::uint32_t kTagMask = ~(ReferenceArena::kUnits - 1);

  /// No two slots of a bucket have the same tag: find_in() relies on it.
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

  /// All that is remembered about an address.
  struct Entry {
    std::uint64_t address;
    std::uint32_t unit;
    Hash hash;

    [[nodiscard]] std::uint32_t slot() const noexcept { return tag_of(hash) | unit; }
  };

  /// Regions often lie at strides that are powers of two. The upper half is folded in before each
  /// multiplication, so that addresses of one stride differ in the bits that choose the bucket.
  static Hash hash_of(std::uint64_t address, Access access) noexcept {
    constexpr std::uint64_t kMultiplier = 0xd6e8feb86659fd93;
    Hash hash = address ^ (static_cast<std::uint64_t>(access) << 56U);
    hash = (hash ^ (hash >> 32U)) * kMultiplier;
    return (hash ^ (hash >> 32U)) * kMultiplier;
  }

  static std::uint32_t tag_of(Hash hash) noexcept {
    return static_cast<std::uint32_t>(hash) & kTagMask;
  }

  /// Scales the upper half of the hash to the number of buckets; the tag is taken from the lower
  /// half.
  [[nodiscard]] std::size_t first_of(Hash hash) const noexcept {
    return ((hash >> 32U) * count_) >> 32U;
  }

  [[nodiscard]] std::size_t second_of(Hash hash) const noexcept {
    return first_of(hash * 0x9e3779b97f4a7c15);
  }

  /// The reference for the address in this bucket; null if it is not there.
  [[nodiscard]] RegistrationReference* find_in(const Bucket& bucket, Hash hash,
                                               std::uint64_t address,
                                               std::uint64_t length_bytes) const noexcept {
    const std::uint32_t unit = unit_in(bucket, tag_of(hash));
    if (unit == 0) [[unlikely]]
      return nullptr;
    RegistrationReference* const reference = references_.at(unit);
    if (!reference->covers(address, length_bytes)) [[unlikely]] {
      // Either the region is too large for covers(), or the tag belongs to another address.
      if (!covers_closely(*reference, address, length_bytes)) return nullptr;
    }
    return reference;
  }

  /// Returns 0 if the tag is not there. Compares all slots at once, without a branch. A branch on
  /// the matching slot could not be predicted, and would keep the next look-up from beginning while
  /// this one waits for memory. Many waiting instructions would do the same, because a CPU has
  /// little room for them: hence vectors.
  static std::uint32_t unit_in(const Bucket& bucket, std::uint32_t tag) noexcept {
    const auto fit = [tag](Lanes slots) {
      return std::bit_cast<Lanes>((slots & kTagMask) == tag) & slots;
    };
    // At most one slot fits, and the others are 0 then.
    const Lanes all = fit(bucket.slots[0]) | fit(bucket.slots[1]);
    const Lanes two = all | __builtin_shufflevector(all, all, 2, 3, 0, 1);
    return (two | __builtin_shufflevector(two, two, 1, 0, 3, 2))[0] & ~kTagMask;
  }

  /// Returns false if another entry was overwritten.
  bool put(const Entry& entry);
  /// Returns false if the bucket is full, or holds another address with this tag.
  bool put_in(std::size_t bucket, const Entry& entry);
  [[nodiscard]] bool has(std::size_t bucket, const Entry& entry) const noexcept;
  /// Moves one entry of the bucket to that entry's other bucket. Returns false if none can move.
  bool make_way(std::size_t bucket);
  void set(std::size_t bucket, std::size_t way, const Entry& entry);
  [[nodiscard]] Entry entry_of(std::uint32_t slot, std::uint64_t address) const noexcept;
  /// Whether the slot is still valid. It becomes stale when its region is forgotten and its
  /// reference serves another region.
  [[nodiscard]] bool is_alive(std::uint32_t slot, std::uint64_t address) const noexcept;
  /// Makes the table larger, or drops stale entries if that leaves enough room.
  void rebuild();

  using Buckets = std::vector<Bucket, BigPageAllocator<Bucket>>;

  const ReferenceArena& references_;
  Buckets buckets_ = Buckets(kFirstBuckets);
  std::uint64_t count_ = kFirstBuckets;  // the number of buckets
  std::vector<Addresses> addresses_ =
      std::vector<Addresses>(kFirstBuckets);  // of slots; look-ups do not read them
  std::size_t next_way_ = 0;                  // the slot to overwrite when nothing else helps
  std::size_t away_ = 0;                      // put in second buckets since the last rebuild()
  std::size_t rebuilds_ = 0;
};

}  // namespace hbmwire::detail
