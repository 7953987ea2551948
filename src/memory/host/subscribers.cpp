// SPDX-License-Identifier: MIT
#include "memory/host/subscribers.hpp"

#include <utility>

#include "base/forks.hpp"

namespace hbmwire::memory::host {

struct Subscribers::Entry {
  // Held over the call; the same thread may take it again, to unsubscribe within the call.
  std::recursive_mutex mutex;
  std::function<void()> function;
  bool wanted = true;
  bool called = false;  // is being
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
            // A lock that was held when the process was forked is never freed in the child.
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
  // What it holds goes here and now; only what is running can't be destroyed.
  if (!entry->called) function = std::exchange(entry->function, nullptr);
}

void Subscribers::call() noexcept {
  std::vector<std::shared_ptr<Entry>> entries;
  {
    const std::lock_guard lock(mutex_);
    entries = entries_;
  }
  for (const auto& entry : entries) {
    const std::lock_guard lock(entry->mutex);
    if (!entry->wanted) continue;
    entry->called = true;
    entry->function();
    entry->called = false;
  }
}

}  // namespace hbmwire::memory::host
