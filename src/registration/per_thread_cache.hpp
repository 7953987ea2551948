// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/asymmetric_fence.hpp"
#include "registration/address_cache.hpp"
#include "registration/reference_arena.hpp"

namespace hbmwire::detail {

class RegionCache;

/// What one thread has of one cache. When the thread ends another one takes it over.
struct PerThreadCache {
  PerThreadCache(RegionCache& cache_of, std::uint64_t number_of)
      : cache(cache_of), number(number_of) {}

  RegionCache& cache;
  const std::uint64_t number;               // next_view_number()
  ReferenceArena references{this, number};  // its thread's alone, as the next two
  AddressCache addresses{references};
  std::atomic<std::uint64_t> hits{0};

  // By the cache's lock.
  std::vector<RegistrationReference*>
      free_references;  // with room for all of them, so that giving back can't fail
  bool orphaned = false;

  /// Its thread's alone.
  void count_hit() noexcept {
    hits.store(hits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

/// The view that this thread has used last, and whose it is.
struct CurrentView {
  std::uint64_t cache_id = 0;     // never the same twice
  std::uint64_t view_number = 0;  // 0: none
  PerThreadCache* view = nullptr;
};

// A few bytes, which the loader always has room for, and no call to find them.
extern thread_local constinit CurrentView current_view __attribute__((tls_model("initial-exec")));

/// Ends a lease. In any thread.
void release_reference(RegistrationReference& reference) noexcept;

/// Never 0, another one each time.
[[nodiscard]] std::uint64_t next_cache_id() noexcept;

/// The same for views. A view keeps its number when another thread takes it over. Neither number
/// comes twice, for 64 bits last for centuries: a thread whose view has gone with its cache is not
/// taken for the owner of a new one's references.
[[nodiscard]] std::uint64_t next_view_number() noexcept;

/// This thread's view of a cache, made or taken over when it has none; makes it the current one. By
/// the cache's lock.
PerThreadCache& view_of(const std::shared_ptr<RegionCache>& cache);

}  // namespace hbmwire::detail
