// SPDX-License-Identifier: MIT
#include "endpoint/sockets.hpp"

#include <sys/epoll.h>

#include <cerrno>

#include "base/log.hpp"

namespace hbmwire::detail {

using namespace std::chrono_literals;

namespace {

epoll_event event_of(std::uint32_t events, SocketOwner& owner) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &owner;
  return event;
}

}  // namespace

Result<void> Sockets::open(int worker_epoll) {
  epoll_ = Fd{::epoll_create1(EPOLL_CLOEXEC)};
  if (!epoll_) return tl::make_unexpected(system_error(Stage::open, "epoll_create1", errno));
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(worker_epoll, EPOLL_CTL_ADD, epoll_.get(), &event) != 0)
    return tl::make_unexpected(system_error(Stage::open, "epoll_ctl", errno));
  return {};
}

Result<void> Sockets::watch(int fd, std::uint32_t events, SocketOwner& owner) {
  epoll_event event = event_of(events, owner);
  if (made_.is_inherited()) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::connect,
                                          "the worker is of the process before fork()", {},
                                          Hint::forked_nic));
  }
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return tl::make_unexpected(system_error(Stage::connect, "epoll_ctl", errno));
  ++count_;
  return {};
}

void Sockets::change(int fd, std::uint32_t events, SocketOwner& owner) noexcept {
  epoll_event event = event_of(events, owner);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0)
    log_warning("epoll_ctl", "of a handshake's socket failed", errno);
}

void Sockets::forget(int fd) noexcept {
  if (made_.is_inherited()) return;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0) --count_;
}

// A sanitizer that checks the type of an owner needs a descriptor for that, and there may be none
// left.
__attribute__((no_sanitize("vptr"))) std::size_t Sockets::look(Clock::time_point at) noexcept {
  // A look is a system call, which busy polling must not make every time.
  constexpr auto kShakingHands = 100us;
  constexpr auto kElse = 1ms;
  if (at < next_look_ || count_ == 0) return 0;
  next_look_ = at + (handshakes_ != 0 ? kShakingHands : kElse);
  // One event at a time, since handling it may destroy the owner of another one. The kernel takes
  // turns (epoll_wait(2)), so that no socket keeps the others waiting.
  constexpr std::size_t kMost = 16;
  std::size_t handled = 0;
  for (; handled < kMost && count_ != 0; ++handled) {
    epoll_event event{};
    if (::epoll_wait(epoll_.get(), &event, 1, 0) != 1) break;
    static_cast<SocketOwner*>(event.data.ptr)->on_socket();
  }
  return handled;
}

}  // namespace hbmwire::detail
