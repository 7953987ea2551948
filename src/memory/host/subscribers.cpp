// SPDX-License-Identifier: MIT
#include "memory/host/subscribers.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/forks.hpp"

namespace hbmwire::memory::host {

/// One subscribed function.
struct Subscribers::Entry {
  // Held during the call. It is recursive, so that a function may unsubscribe within its own call.
  std::recursive_mutex mutex;
  std::function<void()> function;
  bool wanted = true;
  bool called = false;  // the function is running
};

Subscribers::Handle Subscribers::add(std::function<void()> function) {
  auto entry = std::make_shared<Entry>();
  entry->function = std::move(function);
  {
    const std::lock_guard lock(mutex_);
    entries_.push_back(entry);
  }
  const Entry* const address = entry.get();
  return {address,
          [owner = shared_from_this(), entry = std::move(entry), process = forks()](const void*) {
            // In a child by fork(2) a lock that was held during the fork is never released.
            if (process == forks()) owner->remove(entry);
          }};
}

void Subscribers::remove(const std::shared_ptr<Entry>& entry) noexcept {
  {
    const std::lock_guard lock(mutex_);
    std::erase(entries_, entry);
  }
  std::function<void()> function;
  const std::lock_guard lock(entry->mutex);
  entry->wanted = false;
  // Destroys the function here and now, unless it is running.
  if (!entry->called) function = std::exchange(entry->function, nullptr);
}

void Subscribers::call() noexcept {
  // From the last one to the first: a removal moves only the entries after the removed one.
  for (std::size_t left = ~std::size_t{0}; left != 0;) {
    std::shared_ptr<Entry> entry;
    {
      const std::lock_guard lock(mutex_);
      left = std::min(left, entries_.size());
      if (left == 0) return;
      entry = entries_[--left];
    }
    const std::lock_guard lock(entry->mutex);
    if (!entry->wanted) continue;
    entry->called = true;
    entry->function();
    entry->called = false;
  }
}

}  // namespace hbmwire::memory::host
