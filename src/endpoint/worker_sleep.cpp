// SPDX-License-Identifier: MIT
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

void WorkerState::take_events() noexcept {
  look_at_sockets = {};
  for (const WorkerNic& nic : nics) transport::VerbsCompletionQueue::take_events(nic.channel.get());
}

Result<bool> WorkerState::arm() {
  HBMWIRE_TRY(check_process(Stage::complete));
  const std::uint64_t before = event_count;
  // What is not read stays readable, and nobody could sleep on the descriptor.
  take_events();
  for (transport::CompletionQueue* const queue : polled) HBMWIRE_TRY(queue->arm());
  // A completion between the last poll and the arming raises no event.
  if (progress() == 0) tick();
  // An engine raises no event when it is done with a copy.
  return event_count == before && staged == 0;
}

Result<void> WorkerState::check(const Wait& wait) {
  pollfd cancel{wait.cancel_fd, POLLIN, 0};
  if (wait.cancel_fd >= 0 && ::poll(&cancel, 1, 0) > 0)
    return tl::make_unexpected(make_error(Errc::cancelled, Stage::complete, "waiting"));
  if (!wait.deadline.passed()) return {};
  return tl::make_unexpected(make_error(Errc::timed_out, Stage::complete,
                                        "not over within the time allowed", {}, Hint::peer_slow));
}

Result<void> WorkerState::sleep(const Wait& wait) {
  tell_sleepers();
  std::unique_ptr<Bell> bell;
  if (options.progress_thread) {
    HBMWIRE_TRY_ASSIGN(bell, take_bell());
    asleep.push_back(bell.get());
  }
  std::array<pollfd, 3> fds{{{epoll.get(), POLLIN, 0},
                             {wait.cancel_fd, POLLIN, 0},
                             {bell ? bell->event.get() : -1, POLLIN, 0}}};
  const int timeout_ms =
      std::min(wait.deadline.poll_timeout_ms(), static_cast<int>(wake_after().count()));
  if (bell) mutex.unlock();
  const int ready = ::poll(fds.data(), fds.size(), timeout_ms);
  const int error_number = errno;
  if (bell) {
    lock();
    std::erase(asleep, bell.get());
    eventfd_t rings = 0;
    if (std::exchange(bell->rung, false)) ::eventfd_read(bell->event.get(), &rings);
    spare_bells.push_back(std::move(bell));
  }
  if (ready < 0 && error_number != EINTR)
    return tl::make_unexpected(system_error(Stage::complete, "poll", error_number));
  if (ready > 0) take_events();
  if (progress() == 0) tick();
  return check(wait);
}

Result<void> WorkerState::rest(const Wait& wait, bool may_sleep, bool& slept) {
  if (!may_sleep) return check(wait);
  if (std::exchange(slept, true)) return sleep(wait);
  const auto at = Clock::now();
  Result<void> goes_on = sleep(wait);
  spin_policy.slept(Clock::now() - at);
  return goes_on;
}

// --- a thread of the library

Result<std::unique_ptr<WorkerState::Bell>> WorkerState::take_bell() {
  if (!spare_bells.empty()) {
    auto bell = std::move(spare_bells.back());
    spare_bells.pop_back();
    return bell;
  }
  // Each has a place among those asleep and among the spare ones.
  auto bell = std::make_unique<Bell>();
  asleep.reserve(bells + 1);
  spare_bells.reserve(bells + 1);
  bell->event = Fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (bell->event) ++bells;
  if (bell->event) return bell;
  return tl::make_unexpected(system_error(Stage::complete, "eventfd", errno));
}

void WorkerState::tell_sleepers() noexcept {
  if (told == event_count) return;
  told = event_count;
  for (Bell* const bell : asleep) {
    if (!std::exchange(bell->rung, true)) ::eventfd_write(bell->event.get(), 1);
  }
}

void WorkerState::lock() noexcept {
  if (mutex.try_lock()) return;
  wanting.fetch_add(1, std::memory_order_relaxed);
  mutex.lock();
  wanting.fetch_sub(1, std::memory_order_relaxed);
}

void WorkerState::give_way() noexcept {
  if (!options.progress_thread) [[likely]]
    return;
  tell_sleepers();
  mutex.unlock();
  // A mutex goes to whoever is there first, and who waits for it sleeps: without a moment's grace
  // a thread that polls would keep it.
  constexpr int kGrace = 100;
  for (int i = 0; i < kGrace && wanting.load(std::memory_order_relaxed) != 0; ++i)
    std::this_thread::yield();
  lock();
}

}  // namespace hbmwire::detail
