// SPDX-License-Identifier: MIT
#include "bench/registration/caches.hpp"

extern "C" {
#include <ucs/memory/rcache.h>
}

#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/registration.hpp"
#include "hbmwire/settings.hpp"

namespace hbmwire::bench {
namespace {

template <class T>
T take(hbmwire::Result<T> result) {
  if (!result) throw std::runtime_error(describe(result.error()));
  return std::move(*result);
}

RegistrationOptions options_of(std::size_t max_regions, RegistrationOptions::Watch watch) {
  RegistrationOptions options;
  options.watch = watch;
  // Registers each piece alone, as UCX's cache does, although all lie in one allocation.
  options.whole = RegistrationOptions::Whole::off;
  options.max_regions = max_regions;
  return options;
}

/// A region of UCX's cache, with the part that a transport adds.
struct UcxRegion {
  ucs_rcache_region_t super;
  ibv_mr* mr;
};

ucs_status_t register_region(void* context, ucs_rcache_t* /*cache*/, void* /*arg*/,
                             ucs_rcache_region_t* region, std::uint16_t /*flags*/) {
  auto* const nic = static_cast<RawNic*>(context);
  if (nic != nullptr) {
    reinterpret_cast<UcxRegion*>(region)->mr = nic->register_host(
        std::bit_cast<void*>(region->super.start), region->super.end - region->super.start);
  }
  return UCS_OK;
}

void deregister_region(void* context, ucs_rcache_t* /*cache*/, ucs_rcache_region_t* region) {
  if (context != nullptr) RawNic::deregister(reinterpret_cast<UcxRegion*>(region)->mr);
}

void dump_region(void* /*context*/, ucs_rcache_t* /*cache*/, ucs_rcache_region_t* /*region*/,
                 char* text, std::size_t size) {
  if (size != 0) *text = '\0';
}

// UCX 1.13 and 1.18 differ: the newer version reports regions that are joined, and takes the
// alignment with each call.
template <class Operations>
constexpr Operations operations() {
  Operations all{};
  all.mem_reg = register_region;
  all.mem_dereg = deregister_region;
  all.dump_region = dump_region;
  if constexpr (requires { all.merge; })
    all.merge = [](void*, ucs_rcache_t*, void*, ucs_rcache_region_t*) {};
  return all;
}

constexpr auto kOperations = operations<ucs_rcache_ops_t>();

template <class Parameters>
void align(Parameters& parameters) {
  if constexpr (requires { parameters.max_alignment; }) {
    parameters.alignment = UCS_RCACHE_MIN_ALIGNMENT;
    parameters.max_alignment = 4096;
  }
}

template <class Get>
ucs_status_t get_region(Get* get, ucs_rcache_t* cache, void* address, std::size_t bytes,
                        ucs_rcache_region_t** region) {
  constexpr int kProtection = PROT_READ | PROT_WRITE;
  if constexpr (std::is_invocable_v<Get*, ucs_rcache_t*, void*, std::size_t, int, void*,
                                    ucs_rcache_region_t**>)
    return get(cache, address, bytes, kProtection, nullptr, region);
  else
    return get(cache, address, bytes, UCS_RCACHE_MIN_ALIGNMENT, kProtection, nullptr, region);
}

}  // namespace

Pieces::Pieces(const Context& context, std::size_t count, std::size_t piece_bytes)
    : count_(count),
      piece_bytes_(piece_bytes),
      memory_(take(take(context.open(MemoryType::host))->allocate(count * 2 * piece_bytes))) {
  for (std::size_t i = 0; i < count; ++i)
    std::memset(std::bit_cast<void*>(address(i)), 1, piece_bytes);
}

OurCache::OurCache(const Context& context, std::size_t max_regions, Watch watch)
    : cache_(take(RegistrationCache::create(context, {take(Nic::open())},
                                            options_of(max_regions, watch)))) {}

void OurCache::fail_with(const Error& error) { throw std::runtime_error(describe(error)); }

UcxCache::UcxCache(std::size_t max_regions, RawNic* nic) {
  ucs_rcache_params_t params{};
  params.region_struct_size = sizeof(UcxRegion);
  align(params);
  params.ops = &kOperations;
  params.context = nic;
  params.max_regions = max_regions;
  params.max_size = std::numeric_limits<std::size_t>::max();
  params.max_unreleased = std::numeric_limits<std::size_t>::max();
  if (::ucs_rcache_create(&params, "bench", nullptr, &cache_) != UCS_OK)
    throw std::runtime_error("ucs_rcache_create failed");
}

UcxCache::~UcxCache() { ::ucs_rcache_destroy(cache_); }

void UcxCache::use(std::uint64_t address, std::size_t bytes) const {
  ucs_rcache_region_t* region = nullptr;
  if (get_region(::ucs_rcache_get, cache_, std::bit_cast<void*>(address), bytes, &region) != UCS_OK)
    throw std::runtime_error("ucs_rcache_get failed");
  ::ucs_rcache_region_put(cache_, region);
}

}  // namespace hbmwire::bench
