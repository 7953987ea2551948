// SPDX-License-Identifier: MIT
#include "registration/region_lists.hpp"

#include <algorithm>
#include <new>

#include "base/asymmetric_fence.hpp"
#include "base/guarded.hpp"
#include "registration/per_thread_cache.hpp"
#include "registration/region_state.hpp"

namespace hbmwire::detail {

namespace {

/// Whether the region was used since the last call. May miss a hit that happens at the same time.
bool take_marks(const CachedRegion& entry) noexcept {
  bool marked = false;
  for (RegistrationReference* const reference : entry.references) {
    if (!reference->has(RegistrationReference::kUsed)) continue;
    reference->unmark(RegistrationReference::kUsed);
    marked = true;
  }
  return marked;
}

std::uint64_t length_of(const CachedRegion& entry) noexcept {
  return entry.range.end - entry.range.begin;
}

}  // namespace

void RegionLists::widen(CachedRegion& entry) {
  AddressRange united = entry.range;
  table_.overlapping(entry.range, entry.access, [&](const CachedRegion& other) {
    if (other.lifetime != entry.lifetime || other.generation != entry.generation) return;
    united.begin = std::min(united.begin, other.range.begin);
    united.end = std::max(united.end, other.range.end);
  });
  entry.range = united;
}

bool RegionLists::make_room(const Room& needed) {
  if (needed.regions > most_.regions || needed.bytes > most_.bytes ||
      needed.dmabufs > most_.dmabufs)
    return false;
  // Counts forgotten regions as gone already, because the caller waits for that.
  std::uint64_t regions = statistics_.memory_regions;
  std::uint64_t bytes = statistics_.bytes;
  std::map<const Fd*, std::uint64_t> dmabufs;
  try {
    dmabufs = dmabufs_;
  } catch (const std::bad_alloc&) {
    return false;  // the caller then registers for one use only
  }
  const auto subtract = [&](const CachedRegion& leaving) {
    if (leaving.in_use()) return;
    regions -= nics_;
    bytes -= length_of(leaving);
    const auto fd = dmabufs.find(state_of(*leaving.region).dmabuf.fd.get());
    if (fd != dmabufs.end() && --fd->second == 0) dmabufs.erase(fd);
  };
  forgotten_.for_each(subtract);
  while (regions > most_.regions - needed.regions || bytes > most_.bytes - needed.bytes ||
         dmabufs.size() > most_.dmabufs - needed.dmabufs) {
    if (!evict_one()) return false;
    subtract(forgotten_.front());  // the one that evict_one() has forgotten
  }
  return true;
}

bool RegionLists::evict_one() noexcept {
  // Second-chance eviction: a hit moves nothing in the list, but marks the region. If all are
  // marked, the first lap clears the marks and the second lap finds the oldest.
  bool spared = true;  // an idle region was passed over because of its mark
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

void RegionLists::add_cached(CachedRegions& fresh) {
  CachedRegion& entry = fresh.front();
  entry.place = fresh.begin();
  count_in(entry);  // before the table changes, since this may throw
  table_.overlapping(entry.range, entry.access, [&](CachedRegion& other) { forget(other); });
  or_undo([&] { table_.insert(entry); }, [&] { count_out(entry); });
  cached_.splice(cached_.begin(), fresh);
}

void RegionLists::add_retired(CachedRegions& fresh) {
  CachedRegion& entry = fresh.front();
  entry.place = fresh.begin();
  count_in(entry);
  entry.forgotten = true;
  retired_.splice(retired_.end(), fresh);
}

void RegionLists::forget(CachedRegion& entry) noexcept {
  table_.erase(entry);
  retired_.splice(retired_.end(), cached_, entry.place);
  entry.forgotten = true;
  for (RegistrationReference* const reference : entry.references)
    reference->mark(RegistrationReference::kForgotten);
  forgotten_.add(entry);
}

void RegionLists::forget(AddressRange range) noexcept {
  table_.overlapping(range, [&](CachedRegion& entry) { forget(entry); });
}

void RegionLists::forget_unused() noexcept {
  for (auto place = cached_.begin(); place != cached_.end();) {
    CachedRegion& entry = *place++;
    if (!entry.in_use()) forget(entry);
  }
}

void RegionLists::forget_all() noexcept {
  while (!cached_.empty()) forget(cached_.front());
}

void RegionLists::invalidate(CachedRegion& entry) noexcept {
  forget(entry);
  ++statistics_.invalidations;
}

void RegionLists::invalidate(AddressRange range, Lifetime lifetime) noexcept {
  table_.overlapping(range, [&](CachedRegion& entry) {
    if (entry.lifetime == lifetime) invalidate(entry);
  });
}

void RegionLists::keep_memory(AddressRange range,
                              const std::shared_ptr<const void>& memory) noexcept {
  for (CachedRegions* const list : {&retired_, &dying_}) {
    for (CachedRegion& entry : *list) {
      if (entry.lifetime == Lifetime::allocation && overlap(entry.range, range))
        entry.memory = memory;
    }
  }
}

void RegionLists::collect(CachedRegionChain& garbage) noexcept {
  if (forgotten_.empty()) return;
  // After this fence, no thread can newly find a forgotten region, and the leases of threads that
  // found it before are visible.
  asymmetric::heavy_fence();
  const CachedRegionChain forgotten = std::move(forgotten_);
  forgotten.for_each([&](CachedRegion& entry) { collect_if_unused(entry, garbage); });
}

void RegionLists::collect_if_unused(CachedRegion& entry, CachedRegionChain& garbage) noexcept {
  if (!entry.forgotten || entry.in_use()) return;
  for (RegistrationReference* const reference : entry.references) {
    rest_of(*reference).region = nullptr;
    view_at(*reference).free_references.push_back(reference);
  }
  entry.references.clear();
  count_out(entry);
  dying_.splice(dying_.end(), retired_, entry.place);
  garbage.add(entry);
}

CachedRegions RegionLists::remove(CachedRegionChain& garbage) noexcept {
  CachedRegions removed;
  garbage.for_each(
      [&](CachedRegion& entry) { removed.splice(removed.end(), dying_, entry.place); });
  garbage.clear();
  return removed;
}

void RegionLists::count_in(const CachedRegion& entry) {
  const Fd* const fd = state_of(*entry.region).dmabuf.fd.get();
  if (fd != nullptr) ++dmabufs_[fd];
  ++statistics_.regions;
  statistics_.bytes += length_of(entry);
  statistics_.memory_regions += nics_;
}

void RegionLists::count_out(const CachedRegion& entry) noexcept {
  --statistics_.regions;
  statistics_.bytes -= length_of(entry);
  statistics_.memory_regions -= nics_;
  const auto users = dmabufs_.find(state_of(*entry.region).dmabuf.fd.get());
  if (users != dmabufs_.end() && --users->second == 0) dmabufs_.erase(users);
}

RegistrationStatistics RegionLists::statistics() const noexcept {
  RegistrationStatistics now = statistics_;
  now.dmabufs = dmabufs_.size();
  for (const CachedRegions* const list : {&cached_, &retired_}) {
    now.in_use += static_cast<std::uint64_t>(
        std::ranges::count_if(*list, [](const CachedRegion& entry) { return entry.in_use(); }));
  }
  return now;
}

}  // namespace hbmwire::detail
