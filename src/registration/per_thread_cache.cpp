// SPDX-License-Identifier: MIT
#include "registration/per_thread_cache.hpp"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "registration/region_cache.hpp"

namespace hbmwire::detail {

thread_local constinit CurrentView current_view;

namespace {

// Runs in the child by fork(2), whose only thread this is: it must not find what its parent's
// caches hold.
void forget_current_view() { current_view = {}; }

// Registered when the library is loaded, before there can be a cache.
[[maybe_unused]] const bool kTold = ::pthread_atfork(nullptr, nullptr, forget_current_view) == 0;

}  // namespace

/// All views of one thread. When the thread ends, other threads take them over.
class ThreadViews {
 public:
  ThreadViews() = default;
  ThreadViews(const ThreadViews&) = delete;
  ThreadViews& operator=(const ThreadViews&) = delete;

  ~ThreadViews() {
    current_view = {};
    for (const Known& known : known_) {
      const auto cache = known.cache.lock();
      if (!cache || cache->inherited()) continue;
      const std::scoped_lock lock(cache->mutex_);
      known.view->orphaned = true;
    }
  }

  PerThreadCache& of(const std::shared_ptr<RegionCache>& cache) {
    std::erase_if(known_, [](const Known& known) { return known.cache.expired(); });
    auto found = std::ranges::find(known_, cache->id(), &Known::cache_id);
    if (found == known_.end()) {
      known_.reserve(known_.size() + 1);  // before a view is taken over: reserve() may throw
      known_.push_back({cache->id(), cache, &take_over_or_make(*cache)});
      found = std::prev(known_.end());
    }
    current_view = {
        .cache_id = found->cache_id, .view_number = found->view->number, .view = found->view};
    return *found->view;
  }

 private:
  /// A view of this thread. The cache may end before the thread.
  struct Known {
    std::uint64_t cache_id;
    std::weak_ptr<RegionCache> cache;
    PerThreadCache* view;
  };

  static PerThreadCache& take_over_or_make(RegionCache& cache) {
    for (const auto& view : cache.views_) {
      if (!std::exchange(view->orphaned, false)) continue;
      return *view;
    }
    cache.views_.push_back(std::make_unique<PerThreadCache>(cache, next_view_number()));
    return *cache.views_.back();
  }

  std::vector<Known> known_;
};

std::uint64_t next_cache_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::uint64_t next_view_number() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

PerThreadCache& view_of(const std::shared_ptr<RegionCache>& cache) {
  thread_local ThreadViews views;
  return views.of(cache);
}

namespace {

[[gnu::noinline]] void give_back_if_forgotten(RegistrationReference& reference) noexcept {
  asymmetric::light_fence();
  if (reference.has(RegistrationReference::kForgotten))
    view_at(reference).cache.give_back(reference);
}

/// For a thread that does not own the reference's view.
[[gnu::noinline]] void release_elsewhere(RegistrationReference& reference) noexcept {
  rest_of(reference).given_back.fetch_add(1, std::memory_order_seq_cst);
  give_back_if_forgotten(reference);
}

}  // namespace

void release_reference(RegistrationReference& reference) noexcept {
  if (current_view.view_number != ReferenceBlock::of(reference).view_number) [[unlikely]]
    return release_elsewhere(reference);
  reference.take_away();
  asymmetric::lightest_fence();
  if (reference.has(RegistrationReference::kForgotten | RegistrationReference::kAsked)) [[unlikely]]
    give_back_if_forgotten(reference);
}

}  // namespace hbmwire::detail

namespace hbmwire {

const Region& RegistrationLease::region() const noexcept {
  return *detail::rest_of(*reference_).region->region;
}

void RegistrationLease::let_go(detail::RegistrationReference& reference) noexcept {
  detail::release_reference(reference);
}

}  // namespace hbmwire
