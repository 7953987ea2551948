// SPDX-License-Identifier: MIT
#include "registration/thread_view.hpp"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "registration/region_cache.hpp"

namespace hbmwire::detail {

thread_local constinit CurrentView current_view;

namespace {

// In the child, whose only thread this is: what its parent's caches hold is not to be found.
void forget_current_view() { current_view = {}; }

// Before there can be a cache.
[[maybe_unused]] const bool kTold = ::pthread_atfork(nullptr, nullptr, forget_current_view) == 0;

}  // namespace

/// All views of one thread. When it ends they are for others to take over.
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

  ThreadView& of(const std::shared_ptr<RegionCache>& cache) {
    std::erase_if(known_, [](const Known& known) { return known.cache.expired(); });
    auto found = std::ranges::find(known_, cache->id(), &Known::cache_id);
    if (found == known_.end()) {
      known_.reserve(known_.size() + 1);  // before a view is taken over
      known_.push_back({cache->id(), cache, &take_over_or_make(*cache)});
      found = std::prev(known_.end());
    }
    current_view = {
        .cache_id = found->cache_id, .view_number = found->view->number, .view = found->view};
    return *found->view;
  }

 private:
  struct Known {
    std::uint64_t cache_id;
    std::weak_ptr<RegionCache> cache;
    ThreadView* view;
  };

  static ThreadView& take_over_or_make(RegionCache& cache) {
    for (const auto& view : cache.views_) {
      if (!std::exchange(view->orphaned, false)) continue;
      return *view;
    }
    cache.views_.push_back(std::make_unique<ThreadView>(cache, next_view_number()));
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

ThreadView& view_of(const std::shared_ptr<RegionCache>& cache) {
  thread_local ThreadViews views;
  return views.of(cache);
}

const Region& region_of(const Pin& pin) noexcept { return *rest_of(pin).region->region; }

namespace {

[[gnu::noinline]] void give_back_if_doomed(Pin& pin) noexcept {
  asymmetric::light_fence();
  if (pin.has(Pin::kDoomed)) view_at(pin).cache.give_back(pin);
}

[[gnu::noinline]] void unpin_elsewhere(Pin& pin) noexcept {
  rest_of(pin).given_back.fetch_add(1, std::memory_order_seq_cst);
  give_back_if_doomed(pin);
}

}  // namespace

void unpin(Pin& pin) noexcept {
  if (current_view.view_number != PinBlock::of(pin).view_number) [[unlikely]]
    return unpin_elsewhere(pin);
  pin.take_away();
  asymmetric::lightest_fence();
  if (pin.has(Pin::kDoomed | Pin::kAsked)) [[unlikely]]
    give_back_if_doomed(pin);
}

}  // namespace hbmwire::detail
