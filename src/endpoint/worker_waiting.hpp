// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "endpoint/spin_policy.hpp"

namespace hbmwire::detail {

struct WorkerState;

/// How threads wait for a worker: they poll for a while, then sleep on its epoll descriptor. With
/// WorkerThreads::any it also has the lock that all calls take; with WorkerOptions::progress_thread
/// it has that lock and the library's thread.
///
/// With a lock several threads may wait. Each sleeps on the epoll descriptor and on a bell of its
/// own. The bell rings when another thread has handled something, since that thread may have taken
/// the event that this one waits for.
class WorkerWaiting {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WorkerWaiting(WorkerState& worker) noexcept : worker_(worker) {}

  WorkerWaiting(const WorkerWaiting&) = delete;
  WorkerWaiting& operator=(const WorkerWaiting&) = delete;
  ~WorkerWaiting() = default;

  /// Errors: Stage::open.
  Result<void> open();

  /// The epoll descriptor: readable when there is something to do.
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

  /// Asks for events. True: there is nothing to do until one comes.
  Result<bool> arm();

  /// Calls `poll()` until `done()`, which may be called again after it was true. Errors: timed_out,
  /// cancelled.
  template <class Poll, class Done>
  Result<void> drive(const Wait& wait, const Poll& poll, const Done& done);

  /// Wakes sleeping threads if anything happened that they have not been told of. Under the lock.
  void tell_sleepers() noexcept;

  void lock() noexcept;
  void unlock() noexcept;

  /// Errors: Errc::exhausted (no thread).
  Result<void> start_thread();
  void stop_thread() noexcept;

  /// The error of a wait whose time is over.
  [[nodiscard]] static Error out_of_time() noexcept;

 private:
  struct Bell {
    Fd event;  // eventfd(2)
    bool rung = false;
  };

  /// Checks whether `wait` has ended. If it has, everything that goes by the clock is looked after
  /// once more before the error is returned, so that the last completions count. Errors: timed_out,
  /// cancelled.
  Result<void> check(const Wait& wait);

  /// Sleeps until fd() is readable, `wait` ends or the peers must be looked after. Errors:
  /// timed_out, cancelled.
  Result<void> sleep(const Wait& wait);

  /// Sleeps if it may; the first time tells the spin policy how long (`slept`). If it may not
  /// sleep, it only checks the wait, so that deadlines count even when there is always something to
  /// do. Errors: as check().
  Result<void> rest(const Wait& wait, bool may_sleep, bool& slept);

  /// Lets other threads have the lock.
  void give_way() noexcept;

  Result<std::unique_ptr<Bell>> take_bell();
  /// The library's thread: makes progress, and sleeps in between, until stop_thread().
  void run() noexcept;

  WorkerState& worker_;
  Fd epoll_;
  SpinPolicy spin_policy_;

  // Used if there is a lock.
  std::recursive_mutex mutex_;
  std::atomic<int> wanting_{0};                     // threads that wait for the mutex
  std::uint64_t told_ = 0;                          // the event_count that sleepers were told of
  std::vector<Bell*> asleep_;                       // one for each sleeping thread
  std::vector<std::unique_ptr<Bell>> spare_bells_;  // of threads that have slept before
  std::size_t bells_ = 0;                           // how many were made
  std::unique_ptr<std::thread> thread_;
  bool stopping_ = false;
};

template <class Poll, class Done>
Result<void> WorkerWaiting::drive(const Wait& wait, const Poll& poll, const Done& done) {
  // The clock is read once in this many polls, and not before them: a poll costs some nanoseconds,
  // a clock read some tens.
  constexpr unsigned kPolls = 64;
  bool polls = spin_policy_.polls();
  bool slept = false;
  Clock::time_point spin_until{};
  unsigned i = 1;
  for (; !done(); ++i) {
    poll();
    if ((polls && i % kPolls != 0) || done()) continue;
    give_way();
    if (done()) break;
    const auto at = Clock::now();
    if (spin_until == Clock::time_point{}) spin_until = polls ? at + SpinPolicy::kSpin : at;
    if (at < spin_until) continue;
    HBMWIRE_TRY_ASSIGN(const bool may_sleep, arm());
    if (done()) break;
    const Result<void> goes_on = rest(wait, may_sleep, slept);
    if (done()) break;
    HBMWIRE_TRY(goes_on);
    // The sleep ended because something happened, so polling may pay off again.
    polls = true;
    spin_until = Clock::now() + SpinPolicy::kSpin;
  }
  // If the first polls ended the wait, everything was there already, which tells nothing about
  // polling.
  if (polls && !slept && i > 2) spin_policy_.came_while_polling();
  return {};
}

}  // namespace hbmwire::detail
