// SPDX-License-Identifier: MIT
#include "registration/address_cache.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace hbmwire::detail {

namespace {

// A look-up that ends in the second bucket takes several times as long as one in the first. An
// address that is in neither takes about a hundred times as long. So the table is rebuilt when the
// entries that were put in second buckets since the last rebuild exceed one for each 64 slots:
// about five slots of eight are taken then. An entry that was lost counts as four.
constexpr std::size_t kSlotsForOneAway = 64;
constexpr std::size_t kLossInAways = 4;

}  // namespace

void AddressCache::remember(std::uint64_t address, const RegistrationReference& reference) {
  const std::uint32_t unit = ReferenceArena::unit_of(reference);
  if (unit >= ReferenceArena::kUnits) return;
  if (!put({.address = address, .unit = unit, .hash = hash_of(address, reference.access())}))
    away_ += kLossInAways;
  // `away_` counts from 0 after each rebuild, so a rebuild follows only after many new entries,
  // whatever the addresses are.
  if (away_ * kSlotsForOneAway <= slots() || count_ == kMostBuckets) return;
  try {
    rebuild();
  } catch (const std::bad_alloc&) {
    // The old table still works, but misses more often.
  }
}

void AddressCache::set(std::size_t bucket, std::size_t way, const Entry& entry) {
  buckets_[bucket].set(way, entry.slot());
  addresses_[bucket][way] = entry.address;
}

AddressCache::Entry AddressCache::entry_of(std::uint32_t slot,
                                           std::uint64_t address) const noexcept {
  const std::uint32_t unit = slot & ~kTagMask;
  return {
      .address = address, .unit = unit, .hash = hash_of(address, references_.at(unit)->access())};
}

bool AddressCache::is_alive(std::uint32_t slot, std::uint64_t address) const noexcept {
  if (slot == 0) return false;
  const Entry entry = entry_of(slot, address);
  const RegistrationReference& reference = *references_.at(entry.unit);
  return entry.slot() == slot && !reference.has(RegistrationReference::kForgotten) &&
         covers_closely(reference, address, 1);
}

bool AddressCache::put_in(std::size_t bucket, const Entry& entry) {
  // Takes the slot that has the tag, else a free or stale one. If a live slot of another address
  // has the tag, there is no place: no two slots may have one tag.
  std::size_t free = kWays;
  for (std::size_t way = 0; way < kWays; ++way) {
    const std::uint32_t slot = buckets_[bucket].at(way);
    const bool has_tag = slot != 0 && (slot & kTagMask) == tag_of(entry.hash);
    if (!has_tag && free != kWays) continue;
    const bool alive = is_alive(slot, addresses_[bucket][way]);
    if (has_tag && alive && slot != entry.slot()) return false;
    if (has_tag || !alive) free = way;
    if (has_tag) break;
  }
  if (free == kWays) return false;
  set(bucket, free, entry);
  return true;
}

bool AddressCache::has(std::size_t bucket, const Entry& entry) const noexcept {
  for (std::size_t way = 0; way < kWays; ++way) {
    if (buckets_[bucket].at(way) == entry.slot() && addresses_[bucket][way] == entry.address)
      return true;
  }
  return false;
}

bool AddressCache::make_way(std::size_t bucket) {
  for (std::size_t way = 0; way < kWays; ++way) {
    const std::uint32_t slot = buckets_[bucket].at(way);
    if (slot == 0) continue;
    const Entry entry = entry_of(slot, addresses_[bucket][way]);
    const std::size_t first = first_of(entry.hash);
    const std::size_t other = first == bucket ? second_of(entry.hash) : first;
    if (other == bucket || !put_in(other, entry)) continue;
    if (first == bucket) ++away_;
    buckets_[bucket].set(way, 0);
    return true;
  }
  return false;
}

bool AddressCache::put(const Entry& entry) {
  const std::size_t first = first_of(entry.hash);
  const std::size_t second = second_of(entry.hash);
  if (put_in(first, entry) || has(second, entry)) return true;
  ++away_;
  if (put_in(second, entry)) return true;
  if (make_way(first) && put_in(first, entry)) return true;
  if (make_way(second) && put_in(second, entry)) return true;
  // No room: overwrites a slot of the first bucket, the one with this tag if there is one.
  std::size_t way = next_way_++ % kWays;
  for (std::size_t same = 0; same < kWays; ++same) {
    const std::uint32_t slot = buckets_[first].at(same);
    if (slot != 0 && (slot & kTagMask) == tag_of(entry.hash)) way = same;
  }
  set(first, way, entry);
  return false;
}

void AddressCache::rebuild() {
  std::size_t taken = 0;
  std::size_t alive = 0;
  const auto each_taken = [](const Buckets& buckets, const std::vector<Addresses>& addresses,
                             auto use) {
    for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
      for (std::size_t way = 0; way < kWays; ++way) {
        const std::uint32_t slot = buckets[bucket].at(way);
        if (slot != 0) use(slot, addresses[bucket][way]);
      }
    }
  };
  each_taken(buckets_, addresses_, [&](std::uint32_t slot, std::uint64_t address) {
    ++taken;
    alive += is_alive(slot, address) ? 1U : 0U;
  });
  away_ = 0;
  std::size_t wanted = buckets_.size();
  if (alive * 2 > slots()) {
    wanted = std::min(wanted * 5 / 4, kMostBuckets);
  } else if (alive == taken) {
    return;  // the addresses crowd in a few buckets, which more room would not change
  }
  Buckets buckets(wanted);
  std::vector<Addresses> addresses(buckets.size());
  buckets_.swap(buckets);
  addresses_.swap(addresses);
  count_ = buckets_.size();
  each_taken(buckets, addresses, [&](std::uint32_t slot, std::uint64_t address) {
    if (is_alive(slot, address)) put(entry_of(slot, address));
  });
  away_ = 0;
  ++rebuilds_;
}

}  // namespace hbmwire::detail
