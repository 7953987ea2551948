// SPDX-License-Identifier: MIT
#include "memory/host/event_reader.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace hbmwire::memory::host {

namespace {

// Descriptors that a child by fork(2) must close, each plus one; 0 is a free place. A copy in a
// child would keep the userfaultfd alive: after the parent has closed its own descriptor, the
// parent's munmap(2) would wait for a reader for ever. There is room for an object that ends and
// one that begins, of two descriptors each.
std::array<std::atomic<int>, 4> not_for_children;

void keep_from_children(int fd) noexcept {
  for (auto& place : not_for_children) {
    int free = 0;
    if (place.compare_exchange_strong(free, fd + 1)) return;
  }
}

void forget(int fd) noexcept {
  for (auto& place : not_for_children) {
    int kept = fd + 1;
    if (place.compare_exchange_strong(kept, 0)) return;
  }
}

[[maybe_unused]] const bool kClosedInChildren =
    ::pthread_atfork(nullptr, nullptr, [] {
      for (auto& place : not_for_children)
        if (const int kept = place.exchange(0); kept != 0) ::close(kept - 1);
    }) == 0;

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds(1));
}

}  // namespace

Result<void> EventReader::start() {
  HBMWIRE_TRY_ASSIGN(userfaultfd_, Userfaultfd::open());
  keep_from_children(userfaultfd_->descriptor());
  stop_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_) return tl::make_unexpected(system_error(Stage::register_memory, "eventfd", errno));
  keep_from_children(stop_.get());
  return thread_.start(&EventReader::body, this);
}

void EventReader::stop() noexcept {
  if (thread_.runs()) {
    stopping_.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    (void)!::write(stop_.get(), &one, sizeof(one));  // "!": GCC heeds no cast to void alone
    thread_.join();
  }
  if (userfaultfd_) {  // still there: no thread ran, or it was lost
    forget(userfaultfd_->descriptor());
    if (lost()) userfaultfd_->abandon();
    userfaultfd_.reset();
  }
  if (stop_) forget(stop_.get());
  stop_.reset();
}

void EventReader::wait_until_queued(std::uint64_t value) const noexcept {
  // The thread usually runs on another CPU. It may also wait for this CPU, or, for longer, behind
  // other threads.
  constexpr int kSpins = 200;
  constexpr int kYields = 200;
  constexpr std::chrono::microseconds kNap{50};
  for (int i = 0; queued() < value; ++i) {
    if (i < kSpins) continue;
    if (i < kSpins + kYields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kNap);
  }
}

void EventReader::wake() noexcept {
  news_.fetch_add(1, std::memory_order_release);
  news_.notify_all();
}

void* EventReader::body(void* self) {
  ::pthread_setname_np(::pthread_self(), "hbmwire-watch");
  static_cast<EventReader*>(self)->run();
  return nullptr;
}

void EventReader::run() noexcept {
  std::array<pollfd, 2> waits{{{userfaultfd_->descriptor(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
  while (!lost()) {
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;  // EINTR, by a debugger
    if (waits[1].revents != 0 && stopping_.load(std::memory_order_acquire)) break;
    if (waits[0].revents != 0) read_one();
  }
  if (lost()) return;
  // The reading thread closes it, so that no munmap(2) can find a userfaultfd without a reader.
  forget(userfaultfd_->descriptor());
  userfaultfd_->close();
}

// Reads one event for each rise of changed(). If it read several, changed() would not rise between
// two of them, and a thread that looked in between would miss the second one.
void EventReader::read_one() noexcept {
  using Kind = Userfaultfd::Event::Kind;
  const std::uint64_t risen = changed_.load(std::memory_order_relaxed) + 1;
  changed_.store(risen, std::memory_order_release);
  const Userfaultfd::Event event = userfaultfd_->read();
  if (event.kind == Kind::discarded) discards_.push({event.range, now_ns()});
  if (event.kind == Kind::lost) lost_.store(true, std::memory_order_release);
  if (event.kind != Kind::none) changes_.push({event.range, event.moved_to});
  queued_.store(risen, std::memory_order_release);
  wake();
}

}  // namespace hbmwire::memory::host
