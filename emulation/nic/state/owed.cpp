// SPDX-License-Identifier: MIT
#include "emulation/nic/state/owed.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace hbmwire::emulation::nic {

void Owed::add(std::uint64_t line, Task task) {
  const std::lock_guard guard(mutex_);
  entries_.push_back({line, std::move(task)});
  count_.store(entries_.size());
}

bool Owed::add_behind(std::uint64_t line, const Task& task) {
  const std::lock_guard guard(mutex_);
  const bool has_some = std::any_of(entries_.begin(), entries_.end(),
                                    [&](const Entry& entry) { return entry.line == line; });
  if (!has_some) return false;
  entries_.push_back({line, task});
  count_.store(entries_.size());
  return true;
}

/// A task stays in the list while it runs, so that later tasks of its line wait.
void Owed::progress() {
  const std::unique_lock running(running_, std::try_to_lock);
  if (!running) return;
  std::set<std::uint64_t> held_up;
  std::unique_lock guard(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    bool done = false;
    if (held_up.count(entry->line) == 0) {
      guard.unlock();
      done = entry->task();
      guard.lock();
    }
    if (!done && entry->line != 0) held_up.insert(entry->line);
    entry = done ? entries_.erase(entry) : std::next(entry);
  }
  count_.store(entries_.size());
}

}  // namespace hbmwire::emulation::nic
