// SPDX-License-Identifier: MIT
#include "registration/region_cache.hpp"

#include <fcntl.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "registration/region_state.hpp"
#include "registration/register.hpp"

namespace hbmwire::detail {

namespace {

std::uint64_t length_of(AddressRange range) noexcept { return range.end - range.begin; }

Error inherited_error() noexcept {
  return make_error(Errc::not_supported, Stage::register_memory,
                    "the cache and its NICs are the parent's of this process", {},
                    Hint::forked_nic);
}

// Changes that come while memory is being registered have it registered again, so often. More means
// that the application changes its pages without end.
constexpr int kAttempts = 4;
// Longer than it takes to read an event, also on a busy machine.
constexpr int kMostYields = 1000;

}  // namespace

RegionCache::RegionCache(std::shared_ptr<const memory::Catalog> catalog, std::vector<Nic> nics,
                         const RegistrationOptions& options)
    : id_(next_cache_id()),
      catalog_(std::move(catalog)),
      nics_(std::move(nics)),
      options_(options) {}

bool RegionCache::is_strict(const CachedRegion& entry) const noexcept {
  return entry.watched && options_.watch == RegistrationOptions::Watch::strict;
}

RegistrationReference& RegionCache::reference(CachedRegion& entry, std::uint64_t address) {
  PerThreadCache& view = view_of(shared_from_this());
  const auto known = std::ranges::find_if(
      entry.references, [&](const RegistrationReference* one) { return &view_at(*one) == &view; });
  RegistrationReference* reference = known == entry.references.end() ? nullptr : *known;
  // What has to be asked for each time is found with the lock only. A slot of what the reference
  // was before leads to it as well, so that it covers nothing then.
  const bool is_remembered = !entry.forgotten && entry.lifetime != Lifetime::generation;
  if (reference == nullptr) {
    entry.references.reserve(entry.references.size() + 1);
    if (view.free_references.empty()) {
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
    const std::uint32_t marks =
        (rest.strict || !asymmetric::is_light() ? RegistrationReference::kAsked : 0U) |
        (entry.forgotten ? RegistrationReference::kDoomed : 0U);
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
  collect(garbage);
  CachedRegion* const entry = table_.find(range, access);
  if (entry == nullptr) return nullptr;
  RegistrationReference& found = reference(*entry, range.begin);
  ++statistics_.hits;
  return &found;
}

bool RegionCache::keep(PerThreadCache& view, RegistrationReference& reference,
                       Access access) noexcept {
  if (reference.has(RegistrationReference::kAsked)) asymmetric::light_fence();
  // In this order: what is under way has not been counted, and who settles a change dooms
  // references first.
  const AddressWatch* const watch = watching_.load(std::memory_order_relaxed);
  const bool is_sure =
      !rest_of(reference).strict || watch == nullptr || !watch->unmapping_under_way();
  if (is_sure && is_settled() && !reference.has(RegistrationReference::kDoomed) &&
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
  // Another thread's munmap(2), whose event is read within microseconds.
  for (int i = 0; watch_->unmapping_under_way(); ++i) {
    if (i == kMostYields) return Verdict::stale;
    ::sched_yield();
  }
  return is_settled() ? Verdict::current : Verdict::unsettled;
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
    const Verdict verdict =
        or_undo([&] { return ask(entry, range); }, [&] { release_reference(*found); });
    if (verdict == Verdict::current) return found;
    {
      const std::scoped_lock lock(mutex_);
      --statistics_.hits;
      if (verdict == Verdict::stale && !entry.forgotten) {
        forget(entry);
        ++statistics_.invalidations;
      }
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
    // Another domain may have the place of one that has gone.
    if (!observed_[&domain].expired()) return {};
  }
  // Before it is known to be observed; to be told twice does no harm.
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
    if (watch_failed_) return false;
    if (!watch_) {
      auto made = AddressWatch::get();
      if (!made) {
        // A shortage passes: the next registration tries again.
        watch_failed_ = !is_shortage(made.error());
        if (watch_told_.is_new(made.error())) {
          log_line(LogLevel::warn, [&] {
            return "the application's host memory is registered anew for each use: " +
                   describe(made.error());
          });
        }
        return false;
      }
      subscription_ = (*made)->subscribe([this] { sweep(); });
      watch_ = std::move(*made);
      cursor_ = watch_->now();
      settled_.store(cursor_.settled, std::memory_order_relaxed);
      watching_.store(watch_.get(), std::memory_order_release);
    }
    watch = watch_;
  }
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
    // It may have gone before anybody was told.
    const auto now = memory.domain().find(entry.range.begin, length_of(entry.range));
    if (!now || now->generation != info.generation) {
      return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::register_memory,
                                            "the memory is no longer allocated",
                                            info.device->name));
    }
  }
  HBMWIRE_TRY_ASSIGN(auto state, registration::register_with(nics_, memory, info, entry.access));
  entry.region.emplace(std::move(state));
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
    if (fresh.keep && wide) unite(entry);
    fresh.flight = in_flight_.insert(in_flight_.end(), InFlight{.range = entry.range});
    fresh.keep = fresh.keep && make_room({.regions = nics_.size(),
                                          .bytes = length_of(entry.range),
                                          .dmabufs = plan.info.path == Path::zero_copy ? 1U : 0U});
    collect(garbage);
  }
  destroy(garbage);
  if (entry.lifetime == Lifetime::address_space && fresh.keep) {
    const auto watched =
        guarded(Stage::register_memory, [&] { return Result<bool>(watch_pages(entry)); });
    fresh.keep = watched.value_or(false);
  }
  return fresh;
}

// Ranges that overlap by turns would drive each other out for ever.
void RegionCache::unite(CachedRegion& entry) {
  AddressRange united = entry.range;
  table_.overlapping(entry.range, entry.access, [&](const CachedRegion& other) {
    if (other.lifetime != entry.lifetime || other.generation != entry.generation) return;
    united.begin = std::min(united.begin, other.range.begin);
    united.end = std::max(united.end, other.range.end);
  });
  entry.range = united;
}

bool RegionCache::end(Fresh& fresh) {
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
  const bool changed = end(fresh);
  if (changed && !last) return nullptr;
  const bool keep =
      fresh.keep && !changed && !(entry.watched && watch_->being_discarded(entry.range));
  CachedRegion* const faster = keep ? table_.find(range, entry.access) : nullptr;
  if (faster != nullptr && faster->generation == entry.generation) {
    pinned = &reference(*faster, range.begin);
    ++statistics_.hits;
  } else {
    pinned = &enter(fresh, range, keep);
  }
  collect(garbage);
  return pinned;
}

RegistrationReference& RegionCache::enter(Fresh& fresh, AddressRange range, bool keep) {
  CachedRegion& entry = fresh.regions.front();
  entry.place = fresh.regions.begin();
  count_in(entry);
  if (keep) {
    table_.overlapping(entry.range, entry.access, [&](CachedRegion& other) { forget(other); });
    or_undo([&] { table_.insert(entry); }, [&] { count_out(entry); });
    cached_.splice(cached_.begin(), fresh.regions);
  } else {
    entry.forgotten = true;
    retired_.splice(retired_.end(), fresh.regions);
    ++statistics_.not_kept;
  }
  ++statistics_.misses;
  // What is not kept is collected where nobody has got it.
  RegistrationReference& pinned = *or_undo([&] { return &reference(entry, range.begin); },
                                           [&] {
                                             if (!keep) forgotten_.add(entry);
                                           });
  // Its place is that of this use.
  pinned.unmark(RegistrationReference::kUsed);
  // Others may have registered meanwhile, into the same room.
  if (keep) make_room({});
  return pinned;
}

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
      end(fresh);
    }
    if (fresh.regions.front().range != range) {
      wide = false;  // what was not asked for may be what can't be registered
    } else if (registered.error().code == Errc::exhausted && !emptied) {
      emptied = true;
      drop_unused();
    } else {
      return tl::make_unexpected(registered.error());
    }
  }
}

Result<std::shared_ptr<const Allocation>> RegionCache::import(const DmabufMemory& memory) {
  HBMWIRE_TRY_ASSIGN(const auto identity, memory::dmabuf::identify(memory.fd));
  const ImportKey key{identity, memory.offset_bytes, memory.length_bytes, memory.mapping,
                      memory.read_only};
  const std::scoped_lock lock(imports_mutex_);
  if (auto known = imports_[key].lock()) return known;
  HBMWIRE_TRY_ASSIGN(Allocation imported, catalog_->import_dmabuf(memory));
  auto shared = std::make_shared<const Allocation>(std::move(imported));
  std::erase_if(imports_, [](const auto& one) { return one.second.expired(); });
  imports_[key] = shared;
  return shared;
}

Result<RegistrationLease> RegionCache::get(const DmabufMemory& memory, Access access) {
  if (inherited()) return tl::make_unexpected(inherited_error());
  HBMWIRE_TRY(registration::check_access(access));
  HBMWIRE_TRY_ASSIGN(const auto imported, import(memory));
  const AddressRange range{.begin = imported->address(),
                           .end = imported->address() + imported->size_bytes()};
  RegistrationReference* pinned = find_current(range, access);
  if (pinned == nullptr) {
    HBMWIRE_TRY_ASSIGN(pinned, add(range, access, imported));
  }
  return RegistrationLease(pinned, range.begin, length_of(range));
}

}  // namespace hbmwire::detail
