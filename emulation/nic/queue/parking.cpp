// SPDX-License-Identifier: MIT
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "emulation/common/lock_word.hpp"
#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/state/links.hpp"
#include "emulation/nic/state/process.hpp"
#include "emulation/nic/state/thread.hpp"

/// Requests that have to wait: until the responder is ready, a receive is posted or their time runs
/// out. The helper thread sleeps until a request is due, port counters must be written or this
/// process is woken. It is started when there is first something of this to do.
namespace hbmwire::emulation::nic {

void Process::add_parked(const std::shared_ptr<Parkable>& parked) {
  bool first = false;
  {
    const std::lock_guard guard(parked_mutex_);
    first = parked_.empty();
    parked->parked_at = parked_.size();
    parked_.push_back(parked);
    parked_count_.store(parked_.size());
    if (!helper_started_) start_helper();
  }
  if (first) poke(slot_);  // the helper thread sleeps without a deadline
}

void Process::remove_parked(const Parkable* parked) {
  const std::lock_guard guard(parked_mutex_);
  const std::size_t at = parked->parked_at;
  if (at >= parked_.size() || parked_[at].get() != parked) return;
  parked_.back()->parked_at = at;
  parked_[at] = std::move(parked_.back());
  parked_.pop_back();
  parked_count_.store(parked_.size());
}

std::vector<std::shared_ptr<Parkable>> Process::parked_now() {
  const std::lock_guard guard(parked_mutex_);
  return parked_;
}

std::vector<std::shared_ptr<Parkable>> Process::next_parked(std::size_t most) {
  const std::lock_guard guard(parked_mutex_);
  if (parked_.size() <= most) return parked_;
  std::vector<std::shared_ptr<Parkable>> some;
  some.reserve(most);
  for (; some.size() < most; ++next_parked_) some.push_back(parked_[next_parked_ % parked_.size()]);
  return some;
}

void Process::progress_all_parked() {
  // With many waiting queues, each poll serves some of them in turn, to bound its time. The helper
  // thread serves all of them in time.
  constexpr std::size_t kMost = 64;
  const auto some = next_parked(kMost);
  owed_.progress();
  for (const auto& parked : some) {
    // If the mutex is taken, its holder is already making progress.
    if (parked->mutex.try_lock()) {
      parked->progress_locked();
      parked->mutex.unlock();
    }
  }
}

void Process::end_parked() {
  // Waits for the helper thread, which may be working on a request and would be killed in the
  // middle. 1 s is longer than any request takes. The wait has a limit because a signal handler may
  // have called exit() while its thread held the mutex.
  constexpr std::uint64_t kLongestNs = 1'000'000'000;
  const std::uint64_t end = now_ns() + kLongestNs;
  for (const auto& parked : parked_now()) {
    bool locked = parked->mutex.try_lock();
    for (; !locked && now_ns() < end; locked = parked->mutex.try_lock()) ::sched_yield();
    if (!locked) continue;
    parked->end_locked();
    parked->mutex.unlock();
  }
}

void Process::owe(Owed::Task task, std::uint64_t line) {
  owed_.add(line, std::move(task));
  wake_helper();
}

void Process::poke(std::uint32_t slot) noexcept {
  // This process' own helper is woken even if it seems to be awake: a process that was killed
  // between setting `poked` and writing the byte would otherwise let it sleep for ever.
  if (slot == slot_) shared_->processes[slot].poked.store(0);
  poke_process(*shared_, fifos_, slot);
}

void Process::add_metered(const std::shared_ptr<Sender>& sender) {
  const std::lock_guard guard(metered_mutex_);
  metered_.push_back(sender);
}

/// Returns true if the traffic of some senders could not be collected because they were executing.
bool Process::drain_metered() {
  std::vector<std::shared_ptr<Sender>> senders;
  {
    const std::lock_guard guard(metered_mutex_);
    senders.swap(metered_);
  }
  std::erase_if(senders, [](const std::shared_ptr<Sender>& sender) {
    const PassingHold hold(sender->mutex.favoured(), Place::sender);
    if (!hold.held()) return false;
    sender->drain_locked();
    return true;
  });
  const std::lock_guard guard(metered_mutex_);
  metered_.insert(metered_.end(), senders.begin(), senders.end());
  return !senders.empty();
}

void Process::write_port_files() {
  port_files_.write_all(*shared_, world_.fabric, [this] { return drain_metered(); });
}

void Process::wake_helper() noexcept {
  {
    const std::lock_guard guard(parked_mutex_);
    if (!helper_started_) start_helper();
  }
  poke(slot_);
}

void Process::wake_other_helper() noexcept {
  if (helper_.load(std::memory_order_relaxed) != LockWord::this_thread()) wake_helper();
}

void Process::start_helper() {
  ProcessRecord& record = shared_->processes[slot_];
  wake_channel_ = new_id();
  wake_fd_ = fifos_.create(slot_, wake_channel_);
  if (wake_fd_ < 0) return;  // polling still makes progress; the next parked request tries again
  record.poked.store(0);
  record.wake_channel.store(wake_channel_);
  helper_started_ = start_thread(
      "hbmwire-nic", [](void* self) { static_cast<Process*>(self)->run_helper(); }, this);
  if (helper_started_) return;
  record.wake_channel.store(0);
  ::close(wake_fd_);
  fifos_.remove(slot_, wake_channel_);
}

/// Serves everything that waits. Returns when the next call is needed, or kNever if only a wake-up
/// needs one.
std::uint64_t Process::help() {
  // The least frequency of looks. A peer that was killed wakes no other process, and its death must
  // be noticed before time is counted.
  constexpr std::uint64_t kTickNs = 20'000'000;
  const auto all = parked_now();
  owed_.progress();
  for (const auto& parked : all) parked->progress();
  const std::uint64_t publishing =
      port_files_.progress(*shared_, world_.fabric, now_ns(), [this] { return drain_metered(); });
  const std::uint64_t link_due = raise_due_links(links(), now_ns());
  const bool idle = parked_count_.load() == 0 && !owed_.any();
  std::uint64_t due = idle ? kNever : now_ns() + kTickNs;
  for (const std::uint64_t other : {publishing, link_due}) {
    if (other != 0) due = std::min(due, other);
  }
  // Includes requests that were parked meanwhile.
  for (const auto& parked : parked_now()) {
    const std::lock_guard guard(parked->mutex);
    if (const std::uint64_t deadline = parked->due_locked(); deadline != 0)
      due = std::min(due, deadline);
  }
  return due;
}

void Process::run_helper() {
  ::prctl(PR_SET_TIMERSLACK, 1);  // ns; with the default slack, wake-ups come 50 us late
  ProcessRecord& record = shared_->processes[slot_];
  helper_.store(LockWord::this_thread(), std::memory_order_relaxed);
  for (;;) {
    helper_due_ns_.store(kNever);
    record.poked.store(0);  // before the look: a later event writes a new byte
    const std::uint64_t due = help();
    helper_due_ns_.store(due);
    const std::uint64_t now = now_ns();
    const std::uint64_t sleep_ns = due > now ? due - now : 0;
    constexpr std::uint64_t kSecond = 1'000'000'000;
    const timespec sleep{static_cast<time_t>(sleep_ns / kSecond),
                         static_cast<long>(sleep_ns % kSecond)};
    pollfd wake{wake_fd_, POLLIN, 0};
    if (ppoll(&wake, 1, due == kNever ? nullptr : &sleep, nullptr) > 0) {
      std::array<std::byte, 64> drained{};
      [[maybe_unused]] const ssize_t count = ::read(wake_fd_, drained.data(), drained.size());
    }
  }
}

}  // namespace hbmwire::emulation::nic
