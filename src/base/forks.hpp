// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

namespace hbmwire {

namespace detail {
extern std::atomic<unsigned> fork_count;
}

/// How often this process is a child by fork(2), counted from the process that loaded the library:
/// another number than before says that what was kept (threads, locks, objects of a NIC) is the
/// parent's. Costs a load. Not told of: a child by a bare clone(2), and vfork(2)'s until its
/// execve(2).
[[nodiscard]] inline unsigned forks() noexcept {
  return detail::fork_count.load(std::memory_order_relaxed);
}

/// The process in which this was made. A driver's objects belong to it: a child by fork(2) that
/// gave its copies back would take them from its parent, or be refused.
class MadeHere {
 public:
  [[nodiscard]] bool is_inherited() const noexcept { return forks_ != forks(); }

 private:
  unsigned forks_ = forks();
};

}  // namespace hbmwire
