// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

namespace hbmwire::emulation::nic {

/// What this process has to do and can't, as a process that was stopped has a lock: done once that
/// one goes on, or dies, by whoever polls and by the helper thread.
class Owed {
 public:
  /// True when it is done. It may take locks, and owe more.
  using Task = std::function<bool()>;

  [[nodiscard]] bool any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }

  /// Tasks of one `line` are done in order; of line 0 each is for itself.
  void add(std::uint64_t line, Task task);

  /// Adds it if there is something before it in its line.
  bool add_behind(std::uint64_t line, const Task& task);

  void progress();

 private:
  struct Entry {
    std::uint64_t line;
    Task task;
  };

  std::mutex running_;  // from the first task to the last; nobody waits for it
  std::mutex mutex_;    // guards what follows; free while a task runs
  std::list<Entry> entries_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace hbmwire::emulation::nic
