// SPDX-License-Identifier: MIT
#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/asymmetric_fence.hpp"
#include "base/log.hpp"
#include "registration/region_cache.hpp"
#include "registration/region_state.hpp"

namespace hbmwire::detail {

namespace {

AddressRange range_of(std::uint64_t address, std::uint64_t length_bytes) noexcept {
  const std::uint64_t end = address + length_bytes;
  return {.begin = address, .end = end < address ? ~std::uint64_t{0} : end};
}

/// Whether it was used since the last time. A hit of this very moment may go unseen.
bool take_marks(const CachedRegion& entry) noexcept {
  bool marked = false;
  for (RegistrationReference* const reference : entry.references) {
    if (!reference->has(RegistrationReference::kUsed)) continue;
    reference->unmark(RegistrationReference::kUsed);
    marked = true;
  }
  return marked;
}

}  // namespace

void RegionCache::forget(CachedRegion& entry) noexcept {
  table_.erase(entry);
  retired_.splice(retired_.end(), cached_, entry.place);
  entry.forgotten = true;
  for (RegistrationReference* const reference : entry.references)
    reference->mark(RegistrationReference::kDoomed);
  forgotten_.add(entry);
}

void RegionCache::collect(Garbage& garbage) noexcept {
  if (forgotten_.empty()) return;
  // From here on no thread can find them that had not found them before, and who had shows.
  asymmetric::heavy_fence();
  const CachedRegionChain forgotten = std::move(forgotten_);
  forgotten.for_each([&](CachedRegion& entry) {
    if (!entry.in_use()) retire(entry, garbage);
  });
}

void RegionCache::retire(CachedRegion& entry, Garbage& garbage) noexcept {
  for (RegistrationReference* const reference : entry.references) {
    rest_of(*reference).region = nullptr;
    view_at(*reference).free_references.push_back(reference);
  }
  entry.references.clear();
  count_out(entry);
  dying_.splice(dying_.end(), retired_, entry.place);
  garbage.add(entry);
}

void RegionCache::destroy(CachedRegionChain& garbage) noexcept {
  if (garbage.empty()) return;
  garbage.for_each([](CachedRegion& entry) {
    entry.region.reset();
    entry.watched.reset();
  });
  CachedRegions rest;  // goes without the lock: memory that is given back tells observers
  const std::scoped_lock lock(mutex_);
  garbage.for_each([&](CachedRegion& entry) { rest.splice(rest.end(), dying_, entry.place); });
  garbage.clear();
}

void RegionCache::give_back(const RegistrationReference& reference) noexcept {
  if (inherited()) return;
  Garbage garbage(*this);
  const std::scoped_lock lock(mutex_);
  // What was just forgotten may have been found by a thread that does not show yet.
  collect(garbage);
  CachedRegion* const entry = rest_of(reference).region;
  if (entry != nullptr && entry->forgotten && !entry->in_use()) retire(*entry, garbage);
}

void RegionCache::change(AddressRange range, Lifetime lifetime) noexcept {
  table_.overlapping(range, [&](CachedRegion& entry) {
    if (entry.lifetime != lifetime) return;
    forget(entry);
    ++statistics_.invalidations;
  });
  change_in_flight(range);
}

void RegionCache::change_in_flight(AddressRange range) noexcept {
  for (InFlight& one : in_flight_) one.changed = one.changed || overlap(one.range, range);
}

template <class Forget>
void RegionCache::forget_and_destroy(Forget forget_some) {
  Garbage garbage(*this);
  const std::scoped_lock lock(mutex_);
  forget_some();
  collect(garbage);
}

void RegionCache::settle() noexcept {
  if (!watch_ || is_settled()) return;
  watch_->take(cursor_, [&](AddressRange gone) { change(gone, Lifetime::address_space); });
  settled_.store(cursor_.settled, std::memory_order_release);
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
  change(range, Lifetime::allocation);
  collect(garbage);
  // What NICs may still touch keeps the memory until it is deregistered.
  for (CachedRegions* const list : {&retired_, &dying_}) {
    for (CachedRegion& entry : *list) {
      if (entry.lifetime == Lifetime::allocation && overlap(entry.range, range))
        entry.memory = memory;
    }
  }
}

void RegionCache::drop(std::uint64_t address, std::uint64_t length_bytes) {
  if (inherited()) return;
  const AddressRange range = range_of(address, length_bytes);
  forget_and_destroy([&] {
    table_.overlapping(range, [&](CachedRegion& entry) { forget(entry); });
    change_in_flight(range);
  });
}

void RegionCache::forget_unused() {
  for (Place place = cached_.begin(); place != cached_.end();) {
    CachedRegion& entry = *place++;
    if (!entry.in_use()) forget(entry);
  }
}

void RegionCache::drop_unused() {
  if (inherited()) return;
  forget_and_destroy([&] {
    settle();
    forget_unused();
  });
}

bool RegionCache::close() noexcept {
  if (inherited()) return true;
  subscription_.reset();
  forget_and_destroy([&] {
    while (!cached_.empty()) forget(cached_.front());
  });
  const std::scoped_lock lock(mutex_);
  if (retired_.empty() && dying_.empty()) return true;
  log_line(LogLevel::error, [&] {
    return "registration cache: " + std::to_string(retired_.size()) +
           " regions are in use still, and are left registered";
  });
  return false;
}

bool RegionCache::evict_one() {
  // Second chance: hits change no list, but mark. Where each was marked the first lap takes the
  // marks, and the second one finds the oldest.
  bool spared = true;  // one that is not in use, for its mark
  for (int lap = 0; lap != 2 && spared; ++lap) {
    spared = false;
    for (std::size_t left = cached_.size(); left > 0; --left) {
      CachedRegion& entry = cached_.back();
      const bool marked = take_marks(entry);
      const bool idle = !entry.in_use();
      if (idle && !marked) {
        forget(entry);
        ++statistics_.evictions;
        return true;
      }
      spared = spared || idle;
      cached_.splice(cached_.begin(), cached_, entry.place);
    }
  }
  return false;
}

bool RegionCache::make_room(const Room& needed) {
  if (needed.regions > options_.max_regions || needed.bytes > options_.max_bytes ||
      needed.dmabufs > options_.max_dmabufs)
    return false;
  // What is there once all that is forgotten has gone: who calls this waits for that.
  std::uint64_t regions = statistics_.memory_regions;
  std::uint64_t bytes = statistics_.bytes;
  std::map<const Fd*, std::uint64_t> dmabufs;
  try {
    dmabufs = dmabufs_;
  } catch (const std::bad_alloc&) {
    return false;  // it is registered for one use, which takes no more than this
  }
  const auto leave = [&](const CachedRegion& leaving) {
    if (leaving.in_use()) return;
    regions -= nics_.size();
    bytes -= leaving.range.end - leaving.range.begin;
    const auto fd = dmabufs.find(leaving.region->state().dmabuf.fd.get());
    if (fd != dmabufs.end() && --fd->second == 0) dmabufs.erase(fd);
  };
  forgotten_.for_each(leave);
  while (regions > options_.max_regions - needed.regions ||
         bytes > options_.max_bytes - needed.bytes ||
         dmabufs.size() > options_.max_dmabufs - needed.dmabufs) {
    if (!evict_one()) return false;
    leave(forgotten_.front());
  }
  return true;
}

void RegionCache::count_in(const CachedRegion& entry) {
  const Fd* const fd = entry.region->state().dmabuf.fd.get();
  if (fd != nullptr) ++dmabufs_[fd];
  ++statistics_.regions;
  statistics_.bytes += entry.range.end - entry.range.begin;
  statistics_.memory_regions += nics_.size();
}

void RegionCache::count_out(const CachedRegion& entry) noexcept {
  --statistics_.regions;
  statistics_.bytes -= entry.range.end - entry.range.begin;
  statistics_.memory_regions -= nics_.size();
  const auto users = dmabufs_.find(entry.region->state().dmabuf.fd.get());
  if (users != dmabufs_.end() && --users->second == 0) dmabufs_.erase(users);
}

RegistrationStatistics RegionCache::statistics() {
  if (inherited()) return {};
  const std::scoped_lock lock(mutex_);
  RegistrationStatistics now = statistics_;
  now.dmabufs = dmabufs_.size();
  for (const auto& view : views_) now.hits += view->hits.load(std::memory_order_relaxed);
  for (const CachedRegions* const list : {&cached_, &retired_}) {
    now.in_use += static_cast<std::uint64_t>(
        std::ranges::count_if(*list, [](const CachedRegion& entry) { return entry.in_use(); }));
  }
  return now;
}

}  // namespace hbmwire::detail
