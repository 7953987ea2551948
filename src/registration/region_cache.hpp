// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "hbmwire/registration.hpp"

#include "base/forks.hpp"
#include "base/told_cause.hpp"
#include "memory/catalog.hpp"
#include "registration/cached_region.hpp"
#include "registration/per_thread_cache.hpp"
#include "registration/region_table.hpp"

namespace hbmwire::detail {

/// RegistrationCache's insides.
///
/// A region is in one of three lists: `cached_` (it can be found; the oldest is last), `retired_`
/// (forgotten, but in use), `dying_` (being deregistered by some thread, without the lock). Its
/// place in a list never moves in memory.
class RegionCache final : public MemoryObserver, public std::enable_shared_from_this<RegionCache> {
 public:
  RegionCache(std::shared_ptr<const memory::Catalog> catalog, std::vector<Nic> nics,
              const RegistrationOptions& options);
  RegionCache(const RegionCache&) = delete;
  RegionCache& operator=(const RegionCache&) = delete;
  ~RegionCache() override = default;

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

  /// After the last lease of a reference that is doomed.
  void give_back(const RegistrationReference& reference) noexcept;

  void memory_gone(std::uint64_t address, std::uint64_t size_bytes,
                   const std::shared_ptr<const void>& memory) noexcept override;
  void drop(std::uint64_t address, std::uint64_t length_bytes);
  void drop_unused();
  /// What the watch has seen.
  void sweep();
  [[nodiscard]] RegistrationStatistics statistics();

 private:
  friend PerThreadCache& view_of(const std::shared_ptr<RegionCache>& cache);
  friend class ThreadViews;
  using Place = CachedRegions::iterator;

  /// What is being registered, without the lock.
  struct InFlight {
    AddressRange range;
    bool changed = false;
  };

  /// What is to be registered, and how long it may be kept.
  struct Plan {
    AddressRange range;
    AddressInfo info;
    bool keep = false;
  };

  /// What budgets are about.
  struct Room {
    std::uint64_t regions = 0;  // MRs
    std::uint64_t bytes = 0;
    std::uint64_t dmabufs = 0;
  };

  /// Of what has to be asked for each time it is found.
  enum class Verdict : std::uint8_t {
    current,
    stale,
    unsettled,  // to be looked for again
  };

  /// What nothing finds and nobody uses any more, taken out with the lock; destroyed without it.
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

  [[nodiscard]] bool is_settled() const noexcept;

  // region_cache.cpp: looking up and registering. Without the lock, but where it says so.
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
  void unite(CachedRegion& entry);                                               // with the lock
  RegistrationReference& enter(Fresh& fresh, AddressRange range, bool keep);     // with the lock
  RegistrationReference& reference(CachedRegion& entry, std::uint64_t address);  // with the lock
  Result<void> observe(MemoryDomain& domain);
  Result<std::shared_ptr<const Allocation>> import(const DmabufMemory& memory);

  // region_cache_forget.cpp. All with the lock, but where it says so.
  void settle() noexcept;
  void forget(CachedRegion& entry) noexcept;
  void change(AddressRange range, Lifetime lifetime) noexcept;
  void change_in_flight(AddressRange range) noexcept;
  bool make_room(const Room& needed);
  bool evict_one();
  void forget_unused();
  void count_in(const CachedRegion& entry);
  void count_out(const CachedRegion& entry) noexcept;
  /// Takes out of the lists what was forgotten and is not in use. To be destroy()ed.
  void collect(Garbage& garbage) noexcept;
  void retire(CachedRegion& entry, Garbage& garbage) noexcept;
  /// Without the lock, which it takes for `forget_some`.
  template <class Forget>
  void forget_and_destroy(Forget forget_some);
  /// Without the lock.
  void destroy(CachedRegionChain& garbage) noexcept;

  const std::uint64_t id_;
  const MadeHere made_;
  const std::shared_ptr<const memory::Catalog> catalog_;
  const std::vector<Nic> nics_;
  const RegistrationOptions options_;

  // What a hit reads.
  std::atomic<const AddressWatch*> watching_{nullptr};
  std::atomic<std::uint64_t> settled_{0};  // AddressWatch::changed() as of the last settle()

  std::mutex imports_mutex_;  // before the other one
  std::map<ImportKey, std::weak_ptr<const Allocation>> imports_;

  std::mutex mutex_;  // for all that follows
  RegionTable<CachedRegion> table_;
  CachedRegions cached_;  // what was made last, or passed over by evict_one(), is in front
  CachedRegions retired_;
  CachedRegions dying_;
  CachedRegionChain forgotten_;  // since the last collect()
  std::list<InFlight> in_flight_;
  std::map<const MemoryDomain*, std::weak_ptr<MemoryDomain>> observed_;
  std::map<const Fd*, std::uint64_t> dmabufs_;  // by how many regions
  std::vector<std::unique_ptr<PerThreadCache>> views_;
  RegistrationStatistics statistics_;  // but for hits

  std::shared_ptr<AddressWatch> watch_;
  AddressWatch::Cursor cursor_;
  bool watch_failed_ = false;
  ToldCause watch_told_;
  AddressWatch::Subscription subscription_;
};

inline bool RegionCache::is_settled() const noexcept {
  const AddressWatch* const watch = watching_.load(std::memory_order_acquire);
  return watch == nullptr || watch->changed() == settled_.load(std::memory_order_acquire);
}

inline bool RegionCache::take(PerThreadCache& view, RegistrationReference& reference,
                              Access access) noexcept {
  reference.add();
  asymmetric::lightest_fence();
  // In this order: who settles a change dooms references first. A child by fork(2) has no current
  // view.
  if (!is_settled() || !reference.is_open(access)) [[unlikely]]
    return false;
  view.count_hit();
  return true;
}

}  // namespace hbmwire::detail
