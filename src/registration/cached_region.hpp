// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

#include "memory/host/address_watch.hpp"
#include "registration/reference_arena.hpp"

namespace hbmwire::detail {

using memory::host::AddressRange;
using memory::host::AddressWatch;

/// A range that AddressWatch watches during the life of this object.
class Watched {
 public:
  static Result<Watched> create(std::shared_ptr<AddressWatch> watch, AddressRange range) {
    HBMWIRE_TRY(watch->watch(range));
    return Watched(std::move(watch), range);
  }

  Watched(Watched&&) noexcept = default;
  Watched& operator=(Watched&&) = delete;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  ~Watched() {
    if (watch_) watch_->unwatch(range_);
  }

 private:
  Watched(std::shared_ptr<AddressWatch> watch, AddressRange range) noexcept
      : watch_(std::move(watch)), range_(range) {}

  std::shared_ptr<AddressWatch> watch_;
  AddressRange range_;
};

/// One registration, cached or in use. Members are destroyed in reverse order, so that the
/// registration goes before the memory that was kept for it.
struct CachedRegion {
  AddressRange range;
  Access access = Access::none;
  Lifetime lifetime = Lifetime::use;
  std::uint64_t generation = 0;
  bool forgotten = false;  // look-ups no longer find it; deregistered after its last lease
  std::list<CachedRegion>::iterator place;  // this region, in its list of RegionLists

  std::shared_ptr<const void> memory;          // kept: it was freed, but NICs may still touch it
  std::shared_ptr<const Allocation> imported;  // the cache's own import
  std::optional<Watched> watched;
  std::optional<Region> region;
  std::vector<RegistrationReference*> references;
  CachedRegion* next = nullptr;  // in a CachedRegionChain

  [[nodiscard]] bool in_use() const noexcept {
    for (const RegistrationReference* reference : references) {
      if (leases_of(*reference) != 0) return true;
    }
    return false;
  }
};

using CachedRegions = std::list<CachedRegion>;

/// A list of regions, linked through CachedRegion::next. Each is in at most one chain at a time.
/// The link is part of the region because giving a region back must not need memory.
class CachedRegionChain {
 public:
  CachedRegionChain() noexcept = default;

  CachedRegionChain(CachedRegionChain&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)) {}

  CachedRegionChain& operator=(CachedRegionChain&&) = delete;
  CachedRegionChain(const CachedRegionChain&) = delete;
  CachedRegionChain& operator=(const CachedRegionChain&) = delete;
  ~CachedRegionChain() = default;

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }

  /// The entry that was added last.
  [[nodiscard]] CachedRegion& front() const noexcept { return *first_; }

  void add(CachedRegion& entry) noexcept { entry.next = std::exchange(first_, &entry); }

  /// Calls `use(entry)` for each, front first. `use` may destroy the entry, or add it to another
  /// chain.
  template <class Use>
  void for_each(const Use& use) const {
    for (CachedRegion* at = first_; at != nullptr;) use(*std::exchange(at, at->next));
  }

  void clear() noexcept { first_ = nullptr; }

 private:
  CachedRegion* first_ = nullptr;
};

}  // namespace hbmwire::detail
