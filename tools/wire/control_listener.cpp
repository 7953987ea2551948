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

// A connection that sends nothing for this long is closed. It does not delay other connections.
constexpr auto kSilence = 5s;
// The most silent connections at a time. One more closes the oldest.
constexpr std::size_t kMaxPending = 64;
constexpr auto kDescriptorPause = 50ms;
// The time in which a refused peer must have sent its first message.
constexpr auto kParting = 200ms;

/// Makes poll(2) report a socket as readable only after so many bytes, or at its end. 1 is the
/// usual.
void wake_at(int fd, int bytes) {
  // If this fails, the first byte wakes the server, and the peer's deadline limits the wait for the
  // rest.
  ::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

/// Whether the server should handle a connection that poll(2) reports. A connection that has sent
/// only its preamble is reported again when a message has begun.
bool has_begun(int fd, short events) {
  if ((events & ~POLLIN) != 0) return true;  // an end or an error, which reading reports
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

void ControlListener::tell(const Error& shortage) {
  const bool is_new = !told_ || told_->number != shortage.number;
  told_ = shortage;
  if (is_new) log_line(LogLevel::warn, describe(shortage));
}

/// Reads the peer's first message before it answers: with unread bytes, close(2) would discard the
/// answer.
void ControlListener::refuse(Fd socket, std::string peer, const Error& why) {
  const Wait wait{kParting};
  auto channel = ControlChannel::accept(std::move(socket), std::move(peer), wait);
  if (channel && channel->receive(wait))
    static_cast<void>(channel->send(Abort{describe(why)}, wait));
}

Result<void> ControlListener::take_connection() {
  HBMWIRE_TRY_ASSIGN(tcp::Accepted accepted, listener_.accept());
  if (accepted.socket) {
    // The preamble fits, because the socket's buffer is empty. If the peer has disconnected,
    // reading reports it.
    const auto greeting = preamble();
    static_cast<void>(
        ::send(accepted.socket.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL));
  }
  if (accepted.shortage) {
    tell(*accepted.shortage);
    if (accepted.socket) {
      refuse(std::move(accepted.socket), std::move(accepted.peer), *accepted.shortage);
    } else if (pending_.empty()) {
      // The connection stays in the queue, and poll(2) would report it again at once.
      std::this_thread::sleep_for(kDescriptorPause);
    } else {
      pending_.erase(pending_.begin());  // its descriptor serves the next connection
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
      const short events = fds[i + 2].revents;  // behind the listener and cancel_fd
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
