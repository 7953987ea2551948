// SPDX-License-Identifier: MIT
#include <mutex>
#include <utility>
#include <vector>

#include "hbmwire/registration.hpp"

#include "base/guarded.hpp"
#include "context/context_state.hpp"
#include "registration/region_cache.hpp"

namespace hbmwire {

namespace {

using detail::RegionCache;

/// A cache with open leases must stay, because they point into it.
void close_and_delete(RegionCache* cache) {
  if (cache->close()) {
    delete cache;
    return;
  }
  // The cache stays reachable, so that leak checkers do not report it, too: close() has logged it.
  static std::mutex mutex;
  static auto& left = *new std::vector<RegionCache*>;
  const std::scoped_lock lock(mutex);
  left.push_back(cache);
}

Result<void> check(const std::vector<Nic>& nics, const RegistrationOptions& options) {
  const auto refuse = [](const char* why) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure, why));
  };
  if (nics.empty()) return refuse("a registration cache needs a NIC");
  if (!(options.whole_ratio >= 0 && options.whole_ratio <= 1))
    return refuse("the ratio of device memory that is registered whole is between 0 and 1");
  return {};
}

// The slow paths are separate functions that are not inlined, so that a hit needs no stack space
// for them.

/// Looks the memory up with the cache's lock, and registers it if need be.
[[gnu::noinline]] Result<RegistrationLease> get_slowly(RegionCache& cache, std::uint64_t address,
                                                       std::uint64_t length_bytes, Access access) {
  return guarded(Stage::register_memory, [&]() -> Result<RegistrationLease> {
    HBMWIRE_TRY_ASSIGN(detail::RegistrationReference* const reference,
                       cache.get(address, length_bytes, access));
    return handle_of<RegistrationLease>(reference, address, length_bytes);
  });
}

/// For a lease that take() has counted, but of which it could not tell that it is current.
[[gnu::noinline]] Result<RegistrationLease> look_closer(detail::RegistrationReference& reference,
                                                        RegionCache& cache, std::uint64_t address,
                                                        std::uint64_t length_bytes, Access access) {
  if (cache.keep(*detail::current_view.view, reference, access))
    return handle_of<RegistrationLease>(&reference, address, length_bytes);
  return get_slowly(cache, address, length_bytes, access);
}

/// For an address that find() has not found in its first bucket: looks in its second bucket, and
/// then with the lock.
[[gnu::noinline]] Result<RegistrationLease> look_further(RegionCache& cache, std::uint64_t address,
                                                         std::uint64_t length_bytes,
                                                         Access access) {
  detail::PerThreadCache& view = *detail::current_view.view;
  detail::RegistrationReference* const reference =
      view.addresses.find_away(address, length_bytes, access);
  if (reference != nullptr &&
      (cache.take(view, *reference, access) || cache.keep(view, *reference, access)))
    return handle_of<RegistrationLease>(reference, address, length_bytes);
  return get_slowly(cache, address, length_bytes, access);
}

}  // namespace

RegistrationCache::RegistrationCache(std::shared_ptr<RegionCache> cache) noexcept
    : cache_(std::move(cache)) {}

Result<RegistrationCache> RegistrationCache::create(const Context& context,
                                                    const std::vector<Nic>& nics) {
  return guarded(Stage::register_memory, [&]() -> Result<RegistrationCache> {
    return create(context, nics, context.settings().registration);
  });
}

Result<RegistrationCache> RegistrationCache::create(const Context& context,
                                                    const std::vector<Nic>& nics,
                                                    const RegistrationOptions& options) {
  return guarded(Stage::register_memory, [&]() -> Result<RegistrationCache> {
    HBMWIRE_TRY(check(nics, options));
    const std::shared_ptr<const memory::Catalog> catalog(shared_state_of(context),
                                                         &state_of(context).memory);
    return RegistrationCache(
        std::shared_ptr<RegionCache>(new RegionCache(catalog, nics, options), close_and_delete));
  });
}

Result<RegistrationLease> RegistrationCache::get(std::uint64_t address, std::uint64_t length_bytes,
                                                 Access access) const {
  RegionCache& cache = *cache_;
  const detail::CurrentView& current = detail::current_view;
  if (current.cache_id != cache.id()) [[unlikely]]
    return get_slowly(cache, address, length_bytes, access);
  detail::PerThreadCache& view = *current.view;
  detail::RegistrationReference* const reference =
      view.addresses.find(address, length_bytes, access);
  if (reference == nullptr) [[unlikely]]
    return look_further(cache, address, length_bytes, access);
  if (!cache.take(view, *reference, access)) [[unlikely]]
    return look_closer(*reference, cache, address, length_bytes, access);
  return handle_of<RegistrationLease>(reference, address, length_bytes);
}

Result<RegistrationLease> RegistrationCache::get(const DmabufMemory& memory, Access access) const {
  return guarded(Stage::register_memory, [&] { return cache_->get(memory, access); });
}

void RegistrationCache::drop(std::uint64_t address, std::uint64_t length_bytes) const {
  cache_->drop(address, length_bytes);
}

void RegistrationCache::drop_unused() const { cache_->drop_unused(); }

RegistrationStatistics RegistrationCache::statistics() const { return cache_->statistics(); }

}  // namespace hbmwire
