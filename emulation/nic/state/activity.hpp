// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

#include "emulation/nic/state/process.hpp"
#include "emulation/nic/state/thread_mark.hpp"

namespace hbmwire::emulation::nic {

/// While an Activity exists, its thread may look up memory regions and windows by key and move
/// their bytes. A thread that makes a key invalid waits for every Activity that may have seen the
/// key (wait_for_activity()), so no byte of a deregistered region changes afterwards. Activities
/// are not nested.
class Activity {
 public:
  [[gnu::always_inline]] explicit Activity(Process& process) noexcept : mark_(OwnMark::get()) {
    if (mark_ != nullptr) [[likely]] {
      mark_->begin_work();
    } else {
      count(process);
    }
  }

  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;
  Activity(Activity&&) = delete;
  Activity& operator=(Activity&&) = delete;

  [[gnu::always_inline]] ~Activity() {
    if (mark_ != nullptr) [[likely]] {
      mark_->end_work();
    } else {
      active_->fetch_sub(1);
    }
  }

 private:
  /// Begins an Activity of a thread that has not asked for its mark, or gets none.
  void count(Process& process) noexcept;

  ThreadMark* mark_;
  std::atomic<std::uint32_t>* active_ = nullptr;  // used only by a thread without a mark
};

/// An Activity of a thread that has its mark at hand.
class [[nodiscard]] MarkedActivity {
 public:
  [[gnu::always_inline]] explicit MarkedActivity(ThreadMark& mark) noexcept : mark_(mark) {
    mark_.begin_work();
  }

  MarkedActivity(const MarkedActivity&) = delete;
  MarkedActivity& operator=(const MarkedActivity&) = delete;
  MarkedActivity(MarkedActivity&&) = delete;
  MarkedActivity& operator=(MarkedActivity&&) = delete;

  [[gnu::always_inline]] ~MarkedActivity() { mark_.end_work(); }

 private:
  ThreadMark& mark_;
};

/// Waits until every Activity that had begun in a living process of the fabric has ended. The
/// caller must not be inside an Activity, and must not hold a lock that one could wait for. Returns
/// false if a process was stopped inside an Activity, or has been inside one for 30 s.
[[nodiscard]] bool wait_for_activity(Process& process);

}  // namespace hbmwire::emulation::nic
