// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

namespace hbmwire {

namespace detail {
extern std::atomic<unsigned> fork_count;
}

/// How many calls of fork(2) lie between this process and the one that loaded the library. If the
/// number has changed, everything that was kept (threads, locks, objects of a NIC) belongs to the
/// parent. Costs a load. Does not count children by a bare clone(2), nor those of vfork(2) before
/// execve(2).
[[nodiscard]] inline unsigned forks() noexcept {
  return detail::fork_count.load(std::memory_order_relaxed);
}

/// Remembers the process in which it was made. A driver's objects belong to that process: if a
/// child by fork(2) destroyed its copies, it would take them from its parent, or be refused.
class MadeHere {
 public:
  [[nodiscard]] bool is_inherited() const noexcept { return forks_ != forks(); }

 private:
  unsigned forks_ = forks();
};

}  // namespace hbmwire
