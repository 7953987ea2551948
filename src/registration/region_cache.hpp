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

/// RegistrationCache's insides: looks up without a lock, registers where there is nothing, and
/// locks its parts, which hold the regions (RegionLists) and what the kernel tells of their pages
/// (PageChanges).
class RegionCache final : public MemoryObserver,
                          public counters::LookUpSource,
                          public std::enable_shared_from_this<RegionCache> {
 public:
  RegionCache(std::shared_ptr<const memory::Catalog> catalog, std::vector<Nic> nics,
              const RegistrationOptions& options);
  RegionCache(const RegionCache&) = delete;
  RegionCache& operator=(const RegionCache&) = delete;
  ~RegionCache() override;

  /// Deregisters everything. False when there are leases still, which may not outlive the cache:
  /// it must then be left as it is.
  [[nodiscard]] bool close() noexcept;

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

  /// Counts a lease of a reference of the current thread, which its address cache has found. False:
  /// counted, but to be asked about, by keep().
  [[nodiscard]] bool take(PerThreadCache& view, RegistrationReference& reference,
                          Access access) noexcept;

  /// Whether a reference that was counted is current. Gives it back if not.
  [[nodiscard]] bool keep(PerThreadCache& view, RegistrationReference& reference,
                          Access access) noexcept;

  /// A reference for the current thread, found with the lock, and registers where there is nothing.
  Result<RegistrationReference*> get(std::uint64_t address, std::uint64_t length_bytes,
                                     Access access);

  Result<RegistrationLease> get(const DmabufMemory& memory, Access access);

  /// After the last lease of a reference that is forgotten.
  void give_back(const RegistrationReference& reference) noexcept;

  void memory_gone(std::uint64_t address, std::uint64_t size_bytes,
                   const std::shared_ptr<const void>& memory) noexcept override;
  void drop(std::uint64_t address, std::uint64_t length_bytes);
  void drop_unused();
  /// Takes into account the changes of pages so far.
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

  /// The answer about a region that must be asked about each time it is found.
  enum class Verdict : std::uint8_t {
    current,
    stale,
    unsettled,  // to be looked for again
  };

  /// Regions that are not found and not used any more: taken out with the lock, destroyed without.
  struct Garbage : CachedRegionChain {
    explicit Garbage(RegionCache& cache_of) noexcept : cache(cache_of) {}

    Garbage(const Garbage&) = delete;
    Garbage& operator=(const Garbage&) = delete;

    ~Garbage() { cache.destroy(*this); }

    RegionCache& cache;
  };

  /// A region that is being made.
  struct Fresh {
    CachedRegions regions;  // it alone, until it is in a list
    std::list<InFlight>::iterator flight;
    bool keep = false;
  };

  [[nodiscard]] bool inherited() const noexcept { return made_.is_inherited(); }

  // Without the lock, but where it says so.
  RegistrationReference* find_cached(AddressRange range, Access access);
  RegistrationReference* find_current(AddressRange range, Access access);
  Verdict ask(const CachedRegion& entry, AddressRange range);
  [[nodiscard]] bool is_strict(const CachedRegion& entry) const noexcept;
  Result<RegistrationReference*> add(AddressRange range, Access access,
                                     const std::shared_ptr<const Allocation>& imported);
  [[nodiscard]] Result<Plan> plan(AddressRange range) const;
  [[nodiscard]] bool takes_whole(const AddressInfo& info) const noexcept;
  Fresh begin(const Plan& plan, bool wide, Access access,
              std::shared_ptr<const Allocation> imported);
  bool watch_pages(CachedRegion& entry);
  Result<void> do_register(const Plan& plan, CachedRegion& entry);
  /// Null: its memory was changed meanwhile, and this was not the `last` attempt.
  RegistrationReference* finish(Fresh& fresh, AddressRange range, bool last);
  bool end(Fresh& fresh);                                                        // with the lock
  RegistrationReference& enter(Fresh& fresh, AddressRange range, bool keep);     // with the lock
  RegistrationReference& reference(CachedRegion& entry, std::uint64_t address);  // with the lock
  Result<void> observe(MemoryDomain& domain);
  void settle() noexcept;                              // with the lock
  void change_in_flight(AddressRange range) noexcept;  // with the lock
  /// Takes the lock for `forget_some`.
  template <class Forget>
  void forget_and_destroy(Forget forget_some);
  void destroy(CachedRegionChain& garbage) noexcept;

  const std::uint64_t id_;
  const MadeHere made_;
  const std::shared_ptr<const memory::Catalog> catalog_;
  const std::vector<Nic> nics_;
  const RegistrationOptions options_;

  DmabufImports imports_;  // locked before mutex_

  std::mutex mutex_;  // for all that follows, but where PageChanges says that it needs none
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
  // In this order: a change is settled after its references were forgotten. A child by fork(2) has
  // no current view.
  if (!pages_.is_settled() || !reference.is_open(access)) [[unlikely]]
    return false;
  view.count_hit();
  return true;
}

}  // namespace hbmwire::detail
