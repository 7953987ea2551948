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

/// One thread's view of one cache, with which it finds registrations without the lock. When the
/// thread ends, another thread takes the view over.
struct PerThreadCache {
  PerThreadCache(RegionCache& cache_of, std::uint64_t number_of)
      : cache(cache_of), number(number_of) {}

  RegionCache& cache;
  const std::uint64_t number;               // next_view_number()
  ReferenceArena references{this, number};  // for this thread only, like the next two
  AddressCache addresses{references};
  std::atomic<std::uint64_t> hits{0};

  // Guarded by the cache's lock.
  std::vector<RegistrationReference*>
      free_references;  // has room for all references, so that giving one back cannot fail
  bool orphaned = false;

  /// Only its thread may call this.
  void count_hit() noexcept {
    hits.store(hits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

/// The view that this thread used last, and its cache.
struct CurrentView {
  std::uint64_t cache_id = 0;     // never reused
  std::uint64_t view_number = 0;  // 0: none
  PerThreadCache* view = nullptr;
};

// Small enough for the loader's reserve of thread-local storage, so that no call is needed to find
// its address.
extern thread_local constinit CurrentView current_view __attribute__((tls_model("initial-exec")));

/// Ends a lease. Any thread may call it.
void release_reference(RegistrationReference& reference) noexcept;

/// A new number each time, never 0.
[[nodiscard]] std::uint64_t next_cache_id() noexcept;

/// A new number for a view each time, never 0. A view keeps its number when another thread takes it
/// over. 64 bits last for centuries, so no number is ever reused: a thread whose view went with its
/// cache is never taken for the owner of a new view's references.
[[nodiscard]] std::uint64_t next_view_number() noexcept;

/// This thread's view of the cache; makes it the current one. If the thread has none, takes over a
/// free view or makes one. Call it with the cache's lock.
PerThreadCache& view_of(const std::shared_ptr<RegionCache>& cache);

}  // namespace hbmwire::detail
