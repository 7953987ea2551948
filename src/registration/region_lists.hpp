// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "hbmwire/registration.hpp"

#include "registration/cached_region.hpp"
#include "registration/region_table.hpp"

namespace hbmwire::detail {

/// The regions of one registration cache, and the budget that they share. Each function is called
/// with the cache's lock.
///
/// A region is in one of three lists: `cached_` (look-ups find it; the oldest is last), `retired_`
/// (forgotten, but in use), `dying_` (a thread is deregistering it, without the lock). Regions
/// never move in memory, even when they change lists.
class RegionLists {
 public:
  /// The quantities that the budget limits.
  struct Room {
    std::uint64_t regions = 0;  // MRs
    std::uint64_t bytes = 0;
    std::uint64_t dmabufs = 0;
  };

  RegionLists(std::size_t nics, const RegistrationOptions& options) noexcept
      : nics_(nics),
        most_{.regions = options.max_regions,
              .bytes = options.max_bytes,
              .dmabufs = options.max_dmabufs} {}

  /// Null if no region covers all of `range`.
  [[nodiscard]] CachedRegion* find(AddressRange range, Access access) const {
    return table_.find(range, access);
  }

  /// Widens the range of a new region by all regions of the same kind that it overlaps. Without
  /// that, two users of overlapping ranges would evict each other's region for ever.
  void widen(CachedRegion& entry);

  /// Forgets regions, the least recently used first, until there is room for `needed` within the
  /// budget. Returns false if that is impossible.
  bool make_room(const Room& needed);

  /// Takes over the only region of `fresh`, so that look-ups find it in place of those that it
  /// overlaps. If it throws, `fresh` still has the region.
  void add_cached(CachedRegions& fresh);

  /// Takes over the only region of `fresh`, but no look-up finds it: it lives as long as its
  /// leases. If it throws, `fresh` still has the region.
  void add_retired(CachedRegions& fresh);

  /// For a region of add_retired() that got no lease: the next collect() takes it.
  void abandon(CachedRegion& entry) noexcept { forgotten_.add(entry); }

  /// Look-ups no longer find the region, and collect() takes it if it is not in use. The other
  /// forms do this for the regions that overlap a range, for all unused ones, and for all.
  void forget(CachedRegion& entry) noexcept;
  void forget(AddressRange range) noexcept;
  void forget_unused() noexcept;
  void forget_all() noexcept;

  /// forget(), counted as an invalidation: the memory is no longer what was registered.
  void invalidate(CachedRegion& entry) noexcept;
  void invalidate(AddressRange range, Lifetime lifetime) noexcept;

  /// `memory` has been freed. Forgotten regions keep it until they are deregistered, because NICs
  /// may still touch it.
  void keep_memory(AddressRange range, const std::shared_ptr<const void>& memory) noexcept;

  /// Moves to `garbage` all regions that were forgotten since the last call and are not in use. The
  /// caller deregisters them without the lock, and then calls remove().
  void collect(CachedRegionChain& garbage) noexcept;

  /// Moves a forgotten region to `garbage` if its last lease has ended.
  void collect_if_unused(CachedRegion& entry, CachedRegionChain& garbage) noexcept;

  /// Returns the regions of `garbage`. The caller must destroy them without the lock, because
  /// freeing memory notifies its observers, such as this cache.
  [[nodiscard]] CachedRegions remove(CachedRegionChain& garbage) noexcept;

  [[nodiscard]] bool is_empty() const noexcept {
    return cached_.empty() && retired_.empty() && dying_.empty();
  }

  [[nodiscard]] std::size_t retired() const noexcept { return retired_.size(); }

  /// All counts except hits, misses and not_kept.
  [[nodiscard]] RegistrationStatistics statistics() const noexcept;

 private:
  bool evict_one() noexcept;
  void count_in(const CachedRegion& entry);
  void count_out(const CachedRegion& entry) noexcept;

  const std::uint64_t nics_;
  const Room most_;

  RegionTable<CachedRegion> table_;
  CachedRegions cached_;  // in front: the newest, and those that evict_one() has spared
  CachedRegions retired_;
  CachedRegions dying_;
  CachedRegionChain forgotten_;                 // since the last collect()
  std::map<const Fd*, std::uint64_t> dmabufs_;  // the number of regions for each dma-buf
  RegistrationStatistics statistics_;
};

}  // namespace hbmwire::detail
