// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/asymmetric_fence.hpp"
#include "registration/memo.hpp"
#include "registration/pin_arena.hpp"

namespace hbmwire::detail {

class RegionCache;

/// What one thread has of one cache. When the thread ends another one takes it over.
struct ThreadView {
  ThreadView(RegionCache& cache_of, std::uint64_t id_of) : cache(cache_of), id(id_of) {}

  RegionCache& cache;
  const std::uint64_t id;  // never the same twice
  Memo memo;
  std::atomic<std::uint64_t> hits{0};  // stored by its thread alone

  // By the cache's lock.
  PinArena pins;
  std::vector<Pin*> free_pins;  // with room for all of them, so that giving back can't fail
  bool orphaned = false;
};

/// The view that this thread has used last, and whose it is.
struct CurrentView {
  std::uint64_t cache_id = 0;  // never the same twice
  std::uint64_t view_id = 0;
  ThreadView* view = nullptr;
};

// A few bytes, which the loader always has room for, and no call to find them.
extern thread_local constinit CurrentView current_view __attribute__((tls_model("initial-exec")));

/// A number for a cache or a view: never 0, another one each time.
[[nodiscard]] std::uint64_t next_cache_id() noexcept;

/// This thread's view of a cache, made or taken over when it has none; makes it the current one. By
/// the cache's lock.
ThreadView& view_of(const std::shared_ptr<RegionCache>& cache);

}  // namespace hbmwire::detail
