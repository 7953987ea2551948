// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

namespace hbmwire::emulation::nic {

/// Work that this process has put off because a stopped process holds a lock. Pollers and the
/// helper thread do the work once that process continues or dies.
class Owed {
 public:
  /// Returns true when the task is done. It may take locks and put off more work.
  using Task = std::function<bool()>;

  [[nodiscard]] bool any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }

  /// Tasks of one `line` run in order. Tasks of line 0 are independent of each other.
  void add(std::uint64_t line, Task task);

  /// Adds the task if others of its line are waiting; returns whether it did.
  bool add_behind(std::uint64_t line, const Task& task);

  void progress();

 private:
  struct Entry {
    std::uint64_t line;
    Task task;
  };

  std::mutex running_;  // held by the one thread that runs tasks; others do not wait
  std::mutex mutex_;    // guards the members below; not held while a task runs
  std::list<Entry> entries_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace hbmwire::emulation::nic
