// SPDX-License-Identifier: MIT
#include "hbmwire/registration.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

namespace {

Result<std::vector<Nic>> open(const hbmwire_context& context, const char* const* names,
                              std::size_t count) {
  if (count == 0) return context.value->open_nics();
  HBMWIRE_TRY_ASSIGN(const auto all, c::names_of(names, count));
  std::vector<Nic> nics;
  for (const std::string& name : all) {
    HBMWIRE_TRY_ASSIGN(Nic nic, Nic::open(name));
    nics.push_back(std::move(nic));
  }
  return nics;
}

Result<RegistrationOptions> registration_options_of(const hbmwire_registration_options* options) {
  hbmwire_registration_options defaults;
  hbmwire_registration_options_init(&defaults, sizeof defaults);
  HBMWIRE_TRY_ASSIGN(const hbmwire_registration_options given, c::options_of(options, defaults));
  RegistrationOptions made;
  HBMWIRE_TRY_ASSIGN(made.whole, c::enum_of(given.whole, RegistrationOptions::Whole::off, "whole"));
  HBMWIRE_TRY_ASSIGN(made.watch,
                     c::enum_of(given.watch, RegistrationOptions::Watch::strict, "watch"));
  made.whole_ratio = given.whole_ratio;
  made.max_regions = given.max_regions;
  made.max_bytes = given.max_bytes;
  made.max_dmabufs = given.max_dmabufs;
  return made;
}

}  // namespace

void hbmwire_registration_options_init(hbmwire_registration_options* options, size_t struct_size) {
  const RegistrationOptions library;
  hbmwire_registration_options made{};
  made.whole_ratio = library.whole_ratio;
  made.max_regions = library.max_regions;
  made.max_bytes = library.max_bytes;
  made.max_dmabufs = library.max_dmabufs;
  made.whole = c::number_of(library.whole);
  made.watch = c::number_of(library.watch);
  c::initialise(options, struct_size, made);
}

hbmwire_status hbmwire_registration_cache_create(const hbmwire_context* context,
                                                 const char* const* nics, size_t nic_count,
                                                 const hbmwire_registration_options* options,
                                                 hbmwire_registration_cache** cache,
                                                 hbmwire_error* error) {
  return c::create(cache, error, {{context, "context"}}, [&]() -> Result<RegistrationCache> {
    HBMWIRE_TRY_ASSIGN(const RegistrationOptions wanted, registration_options_of(options));
    HBMWIRE_TRY_ASSIGN(const auto all, open(*context, nics, nic_count));
    if (options == nullptr) return RegistrationCache::create(*context->value, all);
    return RegistrationCache::create(*context->value, all, wanted);
  });
}

void hbmwire_registration_cache_free(hbmwire_registration_cache* cache) { delete cache; }

hbmwire_status hbmwire_registration_cache_get(const hbmwire_registration_cache* cache,
                                              uint64_t address, uint64_t length_bytes,
                                              hbmwire_access access,
                                              hbmwire_registration_lease** lease,
                                              hbmwire_error* error) {
  return c::create(lease, error, {{cache, "cache"}}, [&]() -> Result<RegistrationLease> {
    HBMWIRE_TRY_ASSIGN(const Access rights, c::access_of(access));
    return cache->value->get(address, length_bytes, rights);
  });
}

hbmwire_status hbmwire_registration_cache_get_dmabuf(const hbmwire_registration_cache* cache,
                                                     const hbmwire_dmabuf* dmabuf,
                                                     hbmwire_access access,
                                                     hbmwire_registration_lease** lease,
                                                     hbmwire_error* error) {
  return c::create(lease, error, {{cache, "cache"}}, [&]() -> Result<RegistrationLease> {
    HBMWIRE_TRY_ASSIGN(const Access rights, c::access_of(access));
    HBMWIRE_TRY_ASSIGN(const DmabufMemory given, c::dmabuf_of(dmabuf));
    return cache->value->get(given, rights);
  });
}

hbmwire_status hbmwire_registration_cache_drop(const hbmwire_registration_cache* cache,
                                               uint64_t address, uint64_t length_bytes,
                                               hbmwire_error* error) {
  return c::run(error, {{cache, "cache"}}, [&]() -> Result<void> {
    cache->value->drop(address, length_bytes);
    return {};
  });
}

hbmwire_status hbmwire_registration_cache_drop_unused(const hbmwire_registration_cache* cache,
                                                      hbmwire_error* error) {
  return c::run(error, {{cache, "cache"}}, [&]() -> Result<void> {
    cache->value->drop_unused();
    return {};
  });
}

void hbmwire_registration_statistics_init(hbmwire_registration_statistics* statistics,
                                          size_t struct_size) {
  c::initialise(statistics, struct_size, {});
}

hbmwire_status hbmwire_registration_cache_statistics(const hbmwire_registration_cache* cache,
                                                     hbmwire_registration_statistics* statistics,
                                                     hbmwire_error* error) {
  return c::run(error, {{cache, "cache"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(statistics, "statistics"));
    const RegistrationStatistics told = cache->value->statistics();
    c::fill(statistics, {.struct_size = 0,
                         .hits = told.hits,
                         .misses = told.misses,
                         .evictions = told.evictions,
                         .invalidations = told.invalidations,
                         .not_kept = told.not_kept,
                         .regions = told.regions,
                         .bytes = told.bytes,
                         .memory_regions = told.memory_regions,
                         .dmabufs = told.dmabufs,
                         .in_use = told.in_use});
    return {};
  });
}

const hbmwire_region* hbmwire_registration_lease_region(const hbmwire_registration_lease* lease) {
  return lease == nullptr ? nullptr : &lease->region;
}

hbmwire_slice hbmwire_registration_lease_slice(const hbmwire_registration_lease* lease) {
  if (lease == nullptr) return {};
  const Slice slice = lease->value.slice();
  return {&lease->region, slice.offset_bytes, slice.length_bytes};
}

void hbmwire_registration_lease_free(hbmwire_registration_lease* lease) { delete lease; }
