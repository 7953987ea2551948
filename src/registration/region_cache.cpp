// SPDX-License-Identifier: MIT
#include "registration/region_cache.hpp"

#include <fcntl.h>
#include <sched.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/asymmetric_fence.hpp"
#include "base/guarded.hpp"
#include "base/internals.hpp"
#include "base/log.hpp"
#include "registration/region_state.hpp"
#include "registration/register.hpp"

namespace hbmwire::detail {

namespace {

std::uint64_t length_of(AddressRange range) noexcept { return range.end - range.begin; }

Error inherited_error() noexcept {
  return make_error(Errc::not_supported, Stage::register_memory,
                    "the cache and its NICs belong to the parent of this process", {},
                    Hint::forked_nic);
}

AddressRange range_of(std::uint64_t address, std::uint64_t length_bytes) noexcept {
  const std::uint64_t end = address + length_bytes;
  return {.begin = address, .end = end < address ? ~std::uint64_t{0} : end};
}

// If pages change during a registration, it is made again, at most this often. More changes mean
// that the application changes its pages all the time.
constexpr int kAttempts = 4;
// Calls of sched_yield(2): longer than it takes to read an event, even on a busy machine.
constexpr int kMostYields = 1000;

}  // namespace

RegionCache::RegionCache(std::shared_ptr<const memory::Catalog> catalog, std::vector<Nic> nics,
                         const RegistrationOptions& options)
    : id_(next_cache_id()),
      catalog_(std::move(catalog)),
      nics_(std::move(nics)),
      options_(options),
      imports_(catalog_),
      lists_(nics_.size(), options) {
  counters::Store::get().add(*this);
}

// A child by fork(2) has its own Store, which does not know the parent's caches.
RegionCache::~RegionCache() {
  if (!inherited()) counters::Store::get().remove(*this);
}

counters::LookUps RegionCache::look_ups() {
  const RegistrationStatistics now = statistics();
  return {.hits = now.hits, .misses = now.misses, .evictions = now.evictions};
}

bool RegionCache::is_strict(const CachedRegion& entry) const noexcept {
  return entry.watched && options_.watch == RegistrationOptions::Watch::strict;
}

RegistrationReference& RegionCache::reference(CachedRegion& entry, std::uint64_t address) {
  PerThreadCache& view = view_of(shared_from_this());
  const auto known = std::ranges::find_if(
      entry.references, [&](const RegistrationReference* one) { return &view_at(*one) == &view; });
  RegistrationReference* reference = known == entry.references.end() ? nullptr : *known;
  // Each use of a region of Lifetime::generation must call ask(), so only look-ups with the lock
  // may find it. Stale slots of the address cache may still lead to this reference: an empty range
  // makes them miss.
  const bool is_remembered = !entry.forgotten && entry.lifetime != Lifetime::generation;
  if (reference == nullptr) {
    entry.references.reserve(entry.references.size() + 1);
    if (view.free_references.empty()) {
      // One more for the new reference, so that giving it back cannot fail.
      view.free_references.reserve(view.references.size() + 1);
      reference = &view.references.add();
    } else {
      reference = view.free_references.back();
      view.free_references.pop_back();
    }
    entry.references.push_back(reference);
    ReferenceRest& rest = rest_of(*reference);
    rest.region = &entry;
    rest.end = is_remembered ? entry.range.end : entry.range.begin;
    rest.strict = is_strict(entry);
    rest.given_back.store(0, std::memory_order_relaxed);
    reference->count.store(0, std::memory_order_relaxed);
    reference->begin = entry.range.begin;
    // Each use must ask whether an unmapping is under way, or execute a fence that is not free.
    const bool is_asked = rest.strict || !asymmetric::is_light();
    const std::uint32_t marks = (is_asked ? RegistrationReference::kAsked : 0U) |
                                (entry.forgotten ? RegistrationReference::kForgotten : 0U);
    reference->state.store(
        RegistrationReference::state_of(entry.access, rest.end - reference->begin, marks),
        std::memory_order_release);
  }
  reference->add();
  reference->mark(RegistrationReference::kUsed);
  if (is_remembered) view.addresses.remember(address, *reference);
  return *reference;
}

RegistrationReference* RegionCache::find_cached(AddressRange range, Access access) {
  Garbage garbage(*this);
  const std::scoped_lock lock(mutex_);
  settle();
  lists_.collect(garbage);
  CachedRegion* const entry = lists_.find(range, access);
  if (entry == nullptr) return nullptr;
  RegistrationReference& found = reference(*entry, range.begin);
  ++statistics_.hits;
  return &found;
}

bool RegionCache::keep(PerThreadCache& view, RegistrationReference& reference,
                       Access access) noexcept {
  if (reference.has(RegistrationReference::kAsked)) asymmetric::light_fence();
  // The order matters. An unmapping that is under way does not count as a change yet, so it is
  // checked first. A change is settled only after its references were marked kForgotten, so the
  // mark is read last.
  const bool is_sure = !rest_of(reference).strict || !pages_.is_unmapping_under_way();
  if (is_sure && pages_.is_settled() && !reference.has(RegistrationReference::kForgotten) &&
      reference.access() == access) {
    if (!reference.has(RegistrationReference::kUsed)) reference.mark(RegistrationReference::kUsed);
    view.count_hit();
    return true;
  }
  release_reference(reference);
  return false;
}

RegionCache::Verdict RegionCache::ask(const CachedRegion& entry, AddressRange range) {
  if (entry.lifetime == Lifetime::generation) {
    const auto info = entry.region->allocation().domain().find(range.begin, length_of(range));
    return info && info->generation == entry.generation ? Verdict::current : Verdict::stale;
  }
  if (!is_strict(entry)) return Verdict::current;
  // Another thread is in munmap(2). Its event is read within microseconds.
  for (int i = 0; pages_.is_unmapping_under_way(); ++i) {
    if (i == kMostYields) return Verdict::stale;
    ::sched_yield();
  }
  return pages_.is_settled() ? Verdict::current : Verdict::unsettled;
}

Result<RegistrationReference*> RegionCache::get(std::uint64_t address, std::uint64_t length_bytes,
                                                Access access) {
  if (inherited()) return tl::make_unexpected(inherited_error());
  HBMWIRE_TRY(registration::check_access(access));
  const AddressRange range{.begin = address, .end = address + length_bytes};
  if (range.end <= range.begin) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::register_memory,
                                          "an address range is empty or wraps around"));
  }
  if (RegistrationReference* const found = find_current(range, access)) return found;
  return add(range, access, nullptr);
}

RegistrationReference* RegionCache::find_current(AddressRange range, Access access) {
  while (RegistrationReference* const found = find_cached(range, access)) {
    CachedRegion& entry = *rest_of(*found).region;
    // A domain that is asked may run out of memory: the lease ends then.
    const Verdict verdict =
        or_undo([&] { return ask(entry, range); }, [&] { release_reference(*found); });
    if (verdict == Verdict::current) return found;
    {
      const std::scoped_lock lock(mutex_);
      --statistics_.hits;  // which find_cached() has counted
      if (verdict == Verdict::stale && !entry.forgotten) lists_.invalidate(entry);
    }
    release_reference(*found);
  }
  return nullptr;
}

bool RegionCache::takes_whole(const AddressInfo& info) const noexcept {
  using Whole = RegistrationOptions::Whole;
  const bool is_known = info.generation != 0 && info.lifetime != Lifetime::address_space;
  if (!is_known || options_.whole == Whole::off) return false;
  if (options_.whole == Whole::on) return true;
  return info.device->type != MemoryType::host &&
         static_cast<double>(info.size_bytes) <=
             options_.whole_ratio * static_cast<double>(info.device->size_bytes);
}

Result<RegionCache::Plan> RegionCache::plan(AddressRange range) const {
  HBMWIRE_TRY_ASSIGN(AddressInfo info, catalog_->find(range.begin, length_of(range), {}));
  if (info.refusal) return tl::make_unexpected(*info.refusal);
  Plan plan{.range = range, .info = std::move(info), .keep = false};
  switch (plan.info.lifetime) {
    case Lifetime::use:
      break;
    case Lifetime::allocation:
      plan.keep = true;
      break;
    case Lifetime::generation:
      plan.keep = plan.info.generation != 0;
      break;
    case Lifetime::address_space:
      plan.keep = options_.watch != RegistrationOptions::Watch::no;
      break;
  }
  if (takes_whole(plan.info)) {
    plan.range = {.begin = plan.info.base_address,
                  .end = plan.info.base_address + plan.info.size_bytes};
  }
  return plan;
}

Result<void> RegionCache::observe(MemoryDomain& domain) {
  {
    const std::scoped_lock lock(mutex_);
    // A new domain may have the address of one that was destroyed.
    if (!observed_[&domain].expired()) return {};
  }
  // Subscribes before the domain is recorded as observed; a second subscription does no harm.
  HBMWIRE_TRY(domain.observe(weak_from_this()));
  const std::scoped_lock lock(mutex_);
  observed_[&domain] = domain.weak_from_this();
  std::erase_if(observed_, [](const auto& one) { return one.second.expired(); });
  return {};
}

bool RegionCache::watch_pages(CachedRegion& entry) {
  std::shared_ptr<AddressWatch> watch;
  {
    const std::scoped_lock lock(mutex_);
    watch = pages_.start([this] { sweep(); });
  }
  if (!watch) return false;
  auto watched = Watched::create(std::move(watch), entry.range);
  if (!watched) {
    if (log_wanted(LogLevel::info)) {
      log_line(LogLevel::info, [&] {
        return "host memory is registered for one use: " + describe(watched.error());
      });
    }
    return false;
  }
  entry.watched.emplace(std::move(*watched));
  return true;
}

Result<void> RegionCache::do_register(const Plan& plan, CachedRegion& entry) {
  HBMWIRE_TRY_ASSIGN(const Allocation memory,
                     catalog_->borrow(entry.range.begin, length_of(entry.range), {}));
  AddressInfo info = plan.info;
  if (info.lifetime == Lifetime::allocation) {
    HBMWIRE_TRY(observe(memory.domain()));
    // The memory may have been freed before the subscription.
    const auto now = memory.domain().find(entry.range.begin, length_of(entry.range));
    if (!now || now->generation != info.generation) {
      return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::register_memory,
                                            "the memory is no longer allocated",
                                            info.device->name));
    }
  }
  HBMWIRE_TRY_ASSIGN(auto state, registration::register_with(nics_, memory, info, entry.access));
  entry.region = handle_of<Region>(std::move(state));
  return {};
}

RegionCache::Fresh RegionCache::begin(const Plan& plan, bool wide, Access access,
                                      std::shared_ptr<const Allocation> imported) {
  Fresh fresh;
  CachedRegion& entry = fresh.regions.emplace_back();
  entry.range = plan.range;
  entry.access = access;
  entry.lifetime = plan.info.lifetime;
  entry.generation = plan.info.generation;
  entry.imported = std::move(imported);
  fresh.keep = plan.keep;
  Garbage garbage(*this);
  {
    const std::scoped_lock lock(mutex_);
    settle();
    if (fresh.keep && wide) lists_.widen(entry);
    fresh.flight = in_flight_.insert(in_flight_.end(), InFlight{.range = entry.range});
    fresh.keep =
        fresh.keep && lists_.make_room({.regions = nics_.size(),
                                        .bytes = length_of(entry.range),
                                        .dmabufs = plan.info.path == Path::zero_copy ? 1U : 0U});
    lists_.collect(garbage);
  }
  destroy(garbage);  // now, since the registration that follows may need the room
  // Watched before it is registered, so that no change of its pages is missed.
  if (entry.lifetime == Lifetime::address_space && fresh.keep) {
    const auto watched =
        guarded(Stage::register_memory, [&] { return Result<bool>(watch_pages(entry)); });
    fresh.keep = watched.value_or(false);
  }
  return fresh;
}

bool RegionCache::end_flight(Fresh& fresh) {
  settle();
  const bool changed = fresh.flight->changed;
  in_flight_.erase(fresh.flight);
  return changed;
}

RegistrationReference* RegionCache::finish(Fresh& fresh, AddressRange range, bool last) {
  CachedRegion& entry = fresh.regions.front();
  Garbage garbage(*this);
  RegistrationReference* pinned = nullptr;
  const std::scoped_lock lock(mutex_);
  const bool changed = end_flight(fresh);
  if (changed && !last) return nullptr;
  const bool keep =
      fresh.keep && !changed && !(entry.watched && pages_.is_being_discarded(entry.range));
  // Another thread may have registered the same range meanwhile.
  CachedRegion* const faster = keep ? lists_.find(range, entry.access) : nullptr;
  if (faster != nullptr && faster->generation == entry.generation) {
    pinned = &reference(*faster, range.begin);
    ++statistics_.hits;
  } else {
    pinned = &enter(fresh, range, keep);
  }
  lists_.collect(garbage);
  return pinned;
}

RegistrationReference& RegionCache::enter(Fresh& fresh, AddressRange range, bool keep) {
  CachedRegion& entry = fresh.regions.front();
  if (keep) {
    lists_.add_cached(fresh.regions);
  } else {
    lists_.add_retired(fresh.regions);
    ++statistics_.not_kept;
  }
  ++statistics_.misses;
  // If there is no memory for a reference, a region that no look-up finds must be removed again.
  RegistrationReference& pinned = *or_undo([&] { return &reference(entry, range.begin); },
                                           [&] {
                                             if (!keep) lists_.abandon(entry);
                                           });
  // The region is at the front of the list already. A mark would spare it from eviction once more.
  pinned.unmark(RegistrationReference::kUsed);
  // Other threads may have registered meanwhile, and taken the same room.
  if (keep) lists_.make_room({});
  return pinned;
}

// Registers a range and enters it. If its memory changes meanwhile, tries again. If a range that
// was widened cannot be registered, tries just the range that was asked for. If something is
// exhausted, tries once more after all unused regions were dropped.
Result<RegistrationReference*> RegionCache::add(AddressRange range, Access access,
                                                const std::shared_ptr<const Allocation>& imported) {
  bool wide = true;
  bool emptied = false;
  for (int attempt = 1;; ++attempt) {
    HBMWIRE_TRY_ASSIGN(Plan plan, this->plan(range));
    wide = wide && plan.keep;
    if (!wide) plan.range = range;
    Fresh fresh = begin(plan, wide, access, imported);
    const auto registered =
        guarded(Stage::register_memory, [&] { return do_register(plan, fresh.regions.front()); });
    if (registered) {
      if (RegistrationReference* const reference = finish(fresh, range, attempt >= kAttempts))
        return reference;
      continue;
    }
    {
      const std::scoped_lock lock(mutex_);
      end_flight(fresh);
    }
    if (fresh.regions.front().range != range) {
      wide = false;  // the part that was not asked for may be the one that cannot be registered
    } else if (registered.error().code == Errc::exhausted && !emptied) {
      emptied = true;
      drop_unused();
    } else {
      return tl::make_unexpected(registered.error());
    }
  }
}

Result<RegistrationLease> RegionCache::get(const DmabufMemory& memory, Access access) {
  if (inherited()) return tl::make_unexpected(inherited_error());
  HBMWIRE_TRY(registration::check_access(access));
  HBMWIRE_TRY_ASSIGN(const auto imported, imports_.get(memory));
  const AddressRange range{.begin = imported->address(),
                           .end = imported->address() + imported->size_bytes()};
  RegistrationReference* pinned = find_current(range, access);
  if (pinned == nullptr) {
    HBMWIRE_TRY_ASSIGN(pinned, add(range, access, imported));
  }
  return handle_of<RegistrationLease>(pinned, range.begin, length_of(range));
}

void RegionCache::destroy(CachedRegionChain& garbage) noexcept {
  if (garbage.empty()) return;
  garbage.for_each([](CachedRegion& entry) {
    entry.region.reset();
    entry.watched.reset();
  });
  CachedRegions removed;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  removed = lists_.remove(garbage);
}

void RegionCache::give_back(const RegistrationReference& reference) noexcept {
  if (inherited()) return;
  Garbage garbage(*this);
  const std::scoped_lock lock(mutex_);
  // A thread may have just found the forgotten region, with a lease that is not visible yet.
  // collect() makes it visible by a fence, unless an earlier call has done so.
  lists_.collect(garbage);
  // It is null if the region has been collected already.
  CachedRegion* const entry = rest_of(reference).region;
  if (entry != nullptr) lists_.collect_if_unused(*entry, garbage);
}

void RegionCache::change_in_flight(AddressRange range) noexcept {
  for (InFlight& one : in_flight_) one.changed = one.changed || overlap(one.range, range);
}

template <class Forget>
void RegionCache::forget_and_destroy(Forget forget_some) {
  Garbage garbage(*this);
  const std::scoped_lock lock(mutex_);
  forget_some();
  lists_.collect(garbage);
}

void RegionCache::settle() noexcept {
  pages_.settle([&](AddressRange gone) {
    lists_.invalidate(gone, Lifetime::address_space);
    change_in_flight(gone);
  });
}

void RegionCache::sweep() {
  forget_and_destroy([&] { settle(); });
}

void RegionCache::memory_gone(std::uint64_t address, std::uint64_t size_bytes,
                              const std::shared_ptr<const void>& memory) noexcept {
  if (inherited()) return;
  const AddressRange range = range_of(address, size_bytes);
  Garbage garbage(*this);
  const std::scoped_lock lock(mutex_);
  lists_.invalidate(range, Lifetime::allocation);
  change_in_flight(range);
  lists_.collect(garbage);
  lists_.keep_memory(range, memory);
}

void RegionCache::drop(std::uint64_t address, std::uint64_t length_bytes) {
  if (inherited()) return;
  const AddressRange range = range_of(address, length_bytes);
  forget_and_destroy([&] {
    lists_.forget(range);
    change_in_flight(range);
  });
}

void RegionCache::drop_unused() {
  if (inherited()) return;
  forget_and_destroy([&] {
    settle();
    lists_.forget_unused();
  });
}

bool RegionCache::close() noexcept {
  if (inherited()) return true;
  pages_.stop();
  forget_and_destroy([&] { lists_.forget_all(); });
  const std::scoped_lock lock(mutex_);
  if (lists_.is_empty()) return true;
  log_line(LogLevel::error, [&] {
    return "registration cache: " + std::to_string(lists_.retired()) +
           " regions are in use still, and are left registered";
  });
  return false;
}

RegistrationStatistics RegionCache::statistics() {
  if (inherited()) return {};
  const std::scoped_lock lock(mutex_);
  RegistrationStatistics now = lists_.statistics();
  now.hits = statistics_.hits;
  now.misses = statistics_.misses;
  now.not_kept = statistics_.not_kept;
  for (const auto& view : views_) now.hits += view->hits.load(std::memory_order_relaxed);
  return now;
}

}  // namespace hbmwire::detail
