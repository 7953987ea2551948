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

/// The regions of one registration cache and the budget that they share. Each function is called
/// with the cache's lock.
///
/// A region is in one of three lists: `cached_` (it can be found; the oldest is last), `retired_`
/// (forgotten, but in use), `dying_` (being deregistered by some thread, without the lock). Its
/// place in a list never moves in memory.
class RegionLists {
 public:
  /// Counted by the budget.
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

  /// Null: none covers all of `range`.
  [[nodiscard]] CachedRegion* find(AddressRange range, Access access) const {
    return table_.find(range, access);
  }

  /// Widens the range of a region that is to be made by those of its kind that it overlaps: ranges
  /// that overlap by turns would drive each other out for ever.
  void unite(CachedRegion& entry);

  /// Forgets regions, those used longest ago first, until there is room for `needed` within the
  /// budget. False: there can't be.
  bool make_room(const Room& needed);

  /// Takes over the one region of `fresh`, to be found in place of those that it overlaps. If it
  /// throws, `fresh` has the region still.
  void add_cached(CachedRegions& fresh);

  /// Takes over the one region of `fresh`, not to be found: it lives as long as its leases. If it
  /// throws, `fresh` has the region still.
  void add_retired(CachedRegions& fresh);

  /// For a region of add_retired() that has got no lease: collect() takes it.
  void abandon(CachedRegion& entry) noexcept { forgotten_.add(entry); }

  /// No look-up finds it from now on, and collect() takes it if it is not in use. The same for
  /// those that overlap a range, and for all that are not in use; and for all.
  void forget(CachedRegion& entry) noexcept;
  void forget(AddressRange range) noexcept;
  void forget_unused() noexcept;
  void forget_all() noexcept;

  /// forget(), since the memory is no longer what was registered.
  void invalidate(CachedRegion& entry) noexcept;
  void invalidate(AddressRange range, Lifetime lifetime) noexcept;

  /// Regions that were forgotten and may be in use keep `memory`, which has gone, until they are
  /// deregistered: NICs may still touch it.
  void keep_memory(AddressRange range, const std::shared_ptr<const void>& memory) noexcept;

  /// Moves to `garbage` all that was forgotten since the last call and is not in use. To be
  /// deregistered without the lock, and then remove()d.
  void collect(CachedRegionChain& garbage) noexcept;

  /// Moves a region that was forgotten to `garbage` if its last lease has gone.
  void collect_if_unused(CachedRegion& entry, CachedRegionChain& garbage) noexcept;

  /// The regions of `garbage`, for the caller to destroy without the lock: memory that is given
  /// back tells its observers.
  [[nodiscard]] CachedRegions remove(CachedRegionChain& garbage) noexcept;

  [[nodiscard]] bool is_empty() const noexcept {
    return cached_.empty() && retired_.empty() && dying_.empty();
  }

  [[nodiscard]] std::size_t retired() const noexcept { return retired_.size(); }

  /// All but hits, misses and not_kept.
  [[nodiscard]] RegistrationStatistics statistics() const noexcept;

 private:
  bool evict_one() noexcept;
  void count_in(const CachedRegion& entry);
  void count_out(const CachedRegion& entry) noexcept;

  const std::uint64_t nics_;
  const Room most_;

  RegionTable<CachedRegion> table_;
  CachedRegions cached_;  // in front: made last, or passed over by evict_one()
  CachedRegions retired_;
  CachedRegions dying_;
  CachedRegionChain forgotten_;                 // since the last collect()
  std::map<const Fd*, std::uint64_t> dmabufs_;  // by how many regions
  RegistrationStatistics statistics_;
};

}  // namespace hbmwire::detail
