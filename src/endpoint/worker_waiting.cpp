// SPDX-License-Identifier: MIT
#include "endpoint/worker_waiting.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "base/signals.hpp"
#include "base/thread_failure.hpp"
#include "base/told_cause.hpp"
#include "endpoint/worker_state.hpp"

namespace hbmwire::detail {

using namespace std::chrono_literals;

Result<void> WorkerWaiting::open() {
  epoll_ = Fd{::epoll_create1(EPOLL_CLOEXEC)};
  if (!epoll_) return tl::make_unexpected(system_error(Stage::open, "epoll_create1", errno));
  return {};
}

Result<bool> WorkerWaiting::arm() {
  HBMWIRE_TRY(worker_.check_process(Stage::complete));
  const std::uint64_t before = worker_.event_count;
  // An event that is not read keeps the descriptor readable, and no thread could sleep on it.
  worker_.take_events();
  for (transport::CompletionQueue* const queue : worker_.polled) HBMWIRE_TRY(queue->arm());
  worker_.neighbours.rings.begin_sleep();
  // A completion between the last poll and the arming raises no event.
  if (worker_.progress() == 0) worker_.tick();
  // An engine raises no event when it is done with a copy.
  return worker_.event_count == before && worker_.staged == 0;
}

Result<void> WorkerWaiting::check(const Wait& wait) {
  pollfd cancel{wait.cancel_fd, POLLIN, 0};
  const bool cancelled = wait.cancel_fd >= 0 && ::poll(&cancel, 1, 0) > 0;
  if (!cancelled && !wait.deadline.passed()) return {};
  worker_.sockets.look_soon();
  worker_.tick();
  if (cancelled)
    return tl::make_unexpected(make_error(Errc::cancelled, Stage::complete, "waiting"));
  return tl::make_unexpected(out_of_time());
}

Error WorkerWaiting::out_of_time() noexcept {
  return make_error(Errc::timed_out, Stage::complete, "not over within the time allowed", {},
                    Hint::peer_slow);
}

Result<void> WorkerWaiting::sleep(const Wait& wait) {
  tell_sleepers();
  std::unique_ptr<Bell> bell;
  if (worker_.locks) {
    HBMWIRE_TRY_ASSIGN(bell, take_bell());
    asleep_.push_back(bell.get());
  }
  std::array<pollfd, 3> fds{{{epoll_.get(), POLLIN, 0},
                             {wait.cancel_fd, POLLIN, 0},
                             {bell ? bell->event.get() : -1, POLLIN, 0}}};
  const int timeout_ms =
      std::min(wait.deadline.poll_timeout_ms(), static_cast<int>(worker_.wake_after().count()));
  if (bell) mutex_.unlock();
  const int ready = ::poll(fds.data(), fds.size(), timeout_ms);
  const int error_number = errno;
  if (bell) {
    lock();
    std::erase(asleep_, bell.get());
    eventfd_t rings = 0;
    if (std::exchange(bell->rung, false)) ::eventfd_read(bell->event.get(), &rings);
    spare_bells_.push_back(std::move(bell));
  }
  if (ready < 0 && error_number != EINTR)
    return tl::make_unexpected(system_error(Stage::complete, "poll", error_number));
  if (ready > 0) worker_.take_events();
  if (worker_.progress() == 0) worker_.tick();
  return check(wait);
}

Result<void> WorkerWaiting::rest(const Wait& wait, bool may_sleep, bool& slept) {
  if (!may_sleep) return check(wait);
  if (std::exchange(slept, true)) return sleep(wait);
  const auto at = Clock::now();
  Result<void> goes_on = sleep(wait);
  spin_policy_.slept(Clock::now() - at);
  return goes_on;
}

// --- the bells, and the lock

Result<std::unique_ptr<WorkerWaiting::Bell>> WorkerWaiting::take_bell() {
  if (!spare_bells_.empty()) {
    auto bell = std::move(spare_bells_.back());
    spare_bells_.pop_back();
    return bell;
  }
  // Reserves a place for each bell among the sleeping ones and among the spare ones, so that no
  // later step allocates.
  auto bell = std::make_unique<Bell>();
  asleep_.reserve(bells_ + 1);
  spare_bells_.reserve(bells_ + 1);
  bell->event = Fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (bell->event) ++bells_;
  if (bell->event) return bell;
  return tl::make_unexpected(system_error(Stage::complete, "eventfd", errno));
}

void WorkerWaiting::tell_sleepers() noexcept {
  if (told_ == worker_.event_count) return;
  told_ = worker_.event_count;
  for (Bell* const bell : asleep_) {
    if (!std::exchange(bell->rung, true)) ::eventfd_write(bell->event.get(), 1);
  }
}

void WorkerWaiting::lock() noexcept {
  if (mutex_.try_lock()) return;
  wanting_.fetch_add(1, std::memory_order_relaxed);
  mutex_.lock();
  wanting_.fetch_sub(1, std::memory_order_relaxed);
}

void WorkerWaiting::unlock() noexcept {
  tell_sleepers();
  mutex_.unlock();
}

void WorkerWaiting::give_way() noexcept {
  if (!worker_.locks) [[likely]]
    return;
  unlock();
  // A mutex goes to the first thread that asks, and a thread that waits for it sleeps. Without a
  // short pause, a thread that polls would keep the mutex for ever.
  constexpr int kGrace = 100;
  for (int i = 0; i < kGrace && wanting_.load(std::memory_order_relaxed) != 0; ++i)
    std::this_thread::yield();
  lock();
}

// --- the library's thread

void WorkerWaiting::run() noexcept {
  const WorkerLock held(worker_);
  ToldCause said;
  while (!stopping_) {
    const auto may_sleep = guarded(Stage::complete, [&] { return arm(); });
    if (may_sleep && !*may_sleep) {
      give_way();
      continue;
    }
    const auto slept = guarded(Stage::complete, [&]() -> Result<void> {
      if (!may_sleep) return tl::make_unexpected(may_sleep.error());
      return sleep({Deadline::after(1h), -1});
    });
    if (slept) continue;
    // There is no caller to return the error to. Other threads' waits end by their deadlines.
    if (said.is_new(slept.error()))
      log_line(LogLevel::warn, [&] { return describe(slept.error()); });
    mutex_.unlock();
    std::this_thread::sleep_for(10ms);
    lock();
  }
}

Result<void> WorkerWaiting::start_thread() {
  try {
    const SignalsBlocked blocked;
    thread_ = std::make_unique<std::thread>([this] { run(); });
    ::pthread_setname_np(thread_->native_handle(), "hbmwire-worker");
  } catch (const std::system_error& error) {
    return tl::make_unexpected(thread_failure(Stage::open, error.code().value()));
  }
  return {};
}

void WorkerWaiting::stop_thread() noexcept {
  if (!thread_) return;
  {
    const WorkerLock held(worker_);
    stopping_ = true;
    ++worker_.event_count;
  }
  thread_->join();
  thread_.reset();
}

}  // namespace hbmwire::detail
