// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/registration.hpp"
#include "hbmwire/settings.hpp"

#include "base/forks.hpp"
#include "counters/store.hpp"
#include "memory/catalog.hpp"
#include "registration/cached_region.hpp"
#include "registration/dmabuf_imports.hpp"
#include "registration/page_changes.hpp"
#include "registration/per_thread_cache.hpp"
#include "registration/region_lists.hpp"

namespace hbmwire::detail {

/// The implementation of RegistrationCache. Finds registrations without a lock, and registers
/// memory that has none. Its lock guards the parts that hold the regions (RegionLists) and what the
/// kernel reports about their pages (PageChanges).
class RegionCache final : public MemoryObserver,
                          public counters::LookUpSource,
                          public std::enable_shared_from_this<RegionCache> {
 public:
  RegionCache(std::shared_ptr<const memory::Catalog> catalog, std::vector<Nic> nics,
              const RegistrationOptions& options);
  RegionCache(const RegionCache&) = delete;
  RegionCache& operator=(const RegionCache&) = delete;
  ~RegionCache() override;

  /// Deregisters everything. Returns false if leases are left. These may not outlive the cache, so
  /// the caller must leave it as it is.
  [[nodiscard]] bool close() noexcept;

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

  /// Counts a lease on a reference of the current thread, which the thread's address cache has
  /// found. Returns false if the lease is counted but keep() must decide.
  [[nodiscard]] bool take(PerThreadCache& view, RegistrationReference& reference,
                          Access access) noexcept;

  /// Whether a reference that take() has counted is current. If not, gives the lease back.
  [[nodiscard]] bool keep(PerThreadCache& view, RegistrationReference& reference,
                          Access access) noexcept;

  /// Returns a reference for the current thread. Looks it up with the lock, and registers the
  /// memory if there is none.
  Result<RegistrationReference*> get(std::uint64_t address, std::uint64_t length_bytes,
                                     Access access);

  Result<RegistrationLease> get(const DmabufMemory& memory, Access access);

  /// Call it after the last lease of a forgotten reference has ended.
  void give_back(const RegistrationReference& reference) noexcept;

  void memory_gone(std::uint64_t address, std::uint64_t size_bytes,
                   const std::shared_ptr<const void>& memory) noexcept override;

  /// Forgets the regions that overlap the range, or all that are not in use.
  void drop(std::uint64_t address, std::uint64_t length_bytes);
  void drop_unused();
  /// Takes all changes of pages so far into account.
  void sweep();
  [[nodiscard]] RegistrationStatistics statistics();
  [[nodiscard]] counters::LookUps look_ups() override;

 private:
  friend PerThreadCache& view_of(const std::shared_ptr<RegionCache>& cache);
  friend class ThreadViews;

  /// A range that is being registered, without the lock.
  struct InFlight {
    AddressRange range;
    bool changed = false;
  };

  /// The range to register, and whether the registration may be kept.
  struct Plan {
    AddressRange range;
    AddressInfo info;
    bool keep = false;
  };

  /// The answer of ask() about a region that was found.
  enum class Verdict : std::uint8_t {
    current,
    stale,
    unsettled,  // look it up again
  };

  /// Regions that are neither found nor used any more. They are taken out of the lists with the
  /// lock, and destroyed without it, since deregistering takes long: so make it before taking the
  /// lock.
  struct Garbage : CachedRegionChain {
    explicit Garbage(RegionCache& cache_of) noexcept : cache(cache_of) {}

    Garbage(const Garbage&) = delete;
    Garbage& operator=(const Garbage&) = delete;

    ~Garbage() { cache.destroy(*this); }

    RegionCache& cache;
  };

  /// A region that is being made.
  struct Fresh {
    CachedRegions regions;  // holds this one region until a list takes it
    std::list<InFlight>::iterator flight;
    bool keep = false;
  };

  [[nodiscard]] bool inherited() const noexcept { return made_.is_inherited(); }

  // Called without the lock, unless stated otherwise. A returned reference has a new lease.
  RegistrationReference* find_cached(AddressRange range, Access access);
  /// As find_cached(), but forgets regions that ask() calls stale.
  RegistrationReference* find_current(AddressRange range, Access access);
  Verdict ask(const CachedRegion& entry, AddressRange range);
  [[nodiscard]] bool is_strict(const CachedRegion& entry) const noexcept;
  Result<RegistrationReference*> add(AddressRange range, Access access,
                                     const std::shared_ptr<const Allocation>& imported);
  [[nodiscard]] Result<Plan> plan(AddressRange range) const;
  /// Whether to register the whole allocation, not just the range.
  [[nodiscard]] bool takes_whole(const AddressInfo& info) const noexcept;
  /// Makes the entry for a registration that do_register() makes, room for it, and its watch.
  Fresh begin(const Plan& plan, bool wide, Access access,
              std::shared_ptr<const Allocation> imported);
  bool watch_pages(CachedRegion& entry);
  Result<void> do_register(const Plan& plan, CachedRegion& entry);
  /// Returns null if the memory changed meanwhile and this was not the `last` attempt.
  RegistrationReference* finish(Fresh& fresh, AddressRange range, bool last);
  /// Ends begin(). Returns whether the memory has changed since. With the lock.
  bool end_flight(Fresh& fresh);
  /// Moves the new region into a list: of those that look-ups find if `keep`. With the lock.
  RegistrationReference& enter(Fresh& fresh, AddressRange range, bool keep);
  /// The current thread's reference to the region, made if there is none. With the lock.
  RegistrationReference& reference(CachedRegion& entry, std::uint64_t address);
  /// Subscribes to the domain, once.
  Result<void> observe(MemoryDomain& domain);
  /// Takes all changes of pages so far into account. With the lock.
  void settle() noexcept;
  /// Notes for registrations under way that their memory has changed. With the lock.
  void change_in_flight(AddressRange range) noexcept;
  /// Calls `forget_some` with the lock held.
  template <class Forget>
  void forget_and_destroy(Forget forget_some);
  void destroy(CachedRegionChain& garbage) noexcept;

  const std::uint64_t id_;
  const MadeHere made_;
  const std::shared_ptr<const memory::Catalog> catalog_;
  const std::vector<Nic> nics_;
  const RegistrationOptions options_;

  DmabufImports imports_;  // locked before mutex_

  std::mutex mutex_;  // guards the members below, except where PageChanges needs no lock
  RegionLists lists_;
  RegistrationStatistics statistics_;  // hits that took the lock, misses and not_kept
  std::list<InFlight> in_flight_;
  std::map<const MemoryDomain*, std::weak_ptr<MemoryDomain>> observed_;
  std::vector<std::unique_ptr<PerThreadCache>> views_;
  PageChanges pages_;
};

inline bool RegionCache::take(PerThreadCache& view, RegistrationReference& reference,
                              Access access) noexcept {
  reference.add();
  asymmetric::lightest_fence();
  // The order matters: a change is settled only after its references were marked as forgotten. A
  // child by fork(2) has no current view, so it never comes here.
  if (!pages_.is_settled() || !reference.is_open(access)) [[unlikely]]
    return false;
  view.count_hit();
  return true;
}

}  // namespace hbmwire::detail
