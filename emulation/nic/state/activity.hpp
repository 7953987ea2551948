// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

#include "emulation/nic/state/process.hpp"
#include "emulation/nic/state/thread_mark.hpp"

namespace hbmwire::emulation::nic {

/// This thread is at work with keys: it looks MRs and windows up and moves their bytes. Whoever
/// makes a key invalid waits until all who may have seen it are through (wait_for_activity), so
/// that no byte of a deregistered region changes. Within one nothing else begins.
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
  void count(Process& process) noexcept;

  ThreadMark* mark_;
  std::atomic<std::uint32_t>* active_ = nullptr;  // of a thread without a mark
};

/// The same of a thread with a mark, which it has at hand.
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
/// caller is in none itself, and holds no lock that one could wait for. False: a process was
/// stopped in one, or has been in one for half a minute.
[[nodiscard]] bool wait_for_activity(Process& process);

}  // namespace hbmwire::emulation::nic
