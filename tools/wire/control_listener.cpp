// SPDX-License-Identifier: MIT
#include "tools/wire/control_listener.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <thread>
#include <utility>

#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

#include "tools/wire/control_channel.hpp"

namespace hbmwire::tools::wire {

namespace {

using namespace std::chrono_literals;

// A connection that says nothing for this long is closed; it keeps nobody waiting meanwhile.
constexpr auto kSilence = 5s;
// More silent connections than this at once, and the oldest goes.
constexpr std::size_t kMaxPending = 64;
constexpr auto kDescriptorPause = 50ms;
// A peer that is refused has said what it wants within this time.
constexpr auto kParting = 200ms;

/// poll(2) reports a socket as readable from so many bytes on, or at its end.
void wake_at(int fd, int bytes) {
  // Where that fails the first byte wakes, and the peer's deadline ends the wait for the rest.
  ::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

/// Whether a connection that poll(2) reports is worth its server's time. One that has greeted, and
/// said no more, is reported again when a message has begun.
bool has_begun(int fd, short events) {
  if ((events & ~POLLIN) != 0) return true;  // an end or an error, which reading will tell
  std::array<std::byte, kPreambleBytes + kFrameHeaderBytes> bytes{};
  const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return errno != EAGAIN && errno != EINTR;
  if (static_cast<std::size_t>(got) < kPreambleBytes) return true;
  const bool greeted = version_in(std::span(bytes).first<kPreambleBytes>()) == kVersion;
  if (!greeted || static_cast<std::size_t>(got) == bytes.size()) return true;
  wake_at(fd, static_cast<int>(bytes.size()));
  return false;
}

}  // namespace

Result<ControlListener> ControlListener::listen(const std::string& address, std::uint16_t port) {
  HBMWIRE_TRY_ASSIGN(tcp::Listener listener, tcp::Listener::listen(address, port));
  return ControlListener(std::move(listener));
}

/// Once for each cause.
void ControlListener::tell(const Error& shortage) {
  const bool is_new = !told_ || told_->number != shortage.number;
  told_ = shortage;
  if (is_new) log_line(LogLevel::warn, describe(shortage));
}

/// Reads what the peer wants before it answers: a close(2) with unread bytes would take the answer
/// back.
void ControlListener::refuse(Fd socket, std::string peer, const Error& why) {
  const Wait wait{kParting};
  auto channel = ControlChannel::accept(std::move(socket), std::move(peer), wait);
  if (channel && channel->receive(wait))
    static_cast<void>(channel->send(Abort{describe(why)}, wait));
}

Result<void> ControlListener::take_connection() {
  HBMWIRE_TRY_ASSIGN(tcp::Accepted accepted, listener_.accept());
  if (accepted.socket) {
    // The socket's buffer is empty: a preamble fits. A peer that has gone shows when it is read.
    const auto greeting = preamble();
    static_cast<void>(
        ::send(accepted.socket.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL));
  }
  if (accepted.shortage) {
    tell(*accepted.shortage);
    if (accepted.socket) {
      refuse(std::move(accepted.socket), std::move(accepted.peer), *accepted.shortage);
    } else if (pending_.empty()) {
      // The connection stays in the queue and poll(2) reports it again at once.
      std::this_thread::sleep_for(kDescriptorPause);
    } else {
      pending_.erase(pending_.begin());
    }
    listener_.keep_spare();
    return {};
  }
  if (!accepted.socket) return {};
  told_.reset();
  if (pending_.size() >= kMaxPending) pending_.erase(pending_.begin());
  wake_at(accepted.socket.get(), kPreambleBytes);
  pending_.push_back(
      {std::move(accepted.socket), std::move(accepted.peer), Deadline::after(kSilence)});
  return {};
}

Result<ControlListener::Accepted> ControlListener::accept(const Wait& wait) {
  while (!wait.deadline.passed()) {
    std::vector<pollfd> fds{{listener_.fd(), POLLIN, 0}, {wait.cancel_fd, POLLIN, 0}};
    int timeout_ms = wait.deadline.poll_timeout_ms();
    for (const Pending& pending : pending_) {
      fds.push_back({pending.socket.get(), POLLIN | POLLRDHUP, 0});
      timeout_ms = std::min(timeout_ms, pending.deadline.poll_timeout_ms());
    }
    if (::poll(fds.data(), fds.size(), timeout_ms) < 0) {
      if (errno == EINTR) continue;
      return tl::make_unexpected(system_error(Stage::connect, "poll", errno));
    }
    if (fds[1].revents != 0) {
      return tl::make_unexpected(
          make_error(Errc::cancelled, Stage::connect, "waiting for a client"));
    }
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      const short events = fds[i + 2].revents;
      if (events == 0 || !has_begun(pending_[i].socket.get(), events)) continue;
      Accepted accepted{std::move(pending_[i].socket), std::move(pending_[i].peer)};
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
      wake_at(accepted.socket.get(), 1);
      return accepted;
    }
    std::erase_if(pending_, [](const Pending& pending) {
      if (!pending.deadline.passed()) return false;
      log_line(LogLevel::warn,
               "connect " + pending.peer +
                   ": closed, since the connection did not say within 5 s what it wants");
      return true;
    });
    if (fds[0].revents != 0) HBMWIRE_TRY(take_connection());
  }
  return tl::make_unexpected(make_error(Errc::timed_out, Stage::connect, "no client came"));
}

}  // namespace hbmwire::tools::wire
