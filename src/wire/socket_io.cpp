// SPDX-License-Identifier: MIT
#include "wire/socket_io.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace hbmwire::wire {

namespace {

Error peer_error(const char* call, int error_number, std::string_view peer) {
  Error error = system_error(Stage::connect, call, error_number, peer, Hint::peer_gone);
  error.code = Errc::peer_failed;
  return error;
}

}  // namespace

Result<void> wait_for(int fd, short events, const Wait& wait, const char* what,
                      std::string_view peer) {
  for (;;) {
    pollfd fds[2] = {{fd, events, 0}, {wait.cancel_fd, POLLIN, 0}};
    const int ready = ::poll(fds, 2, wait.deadline.poll_timeout_ms());
    if (ready < 0 && errno != EINTR)
      return tl::make_unexpected(system_error(Stage::connect, "poll", errno, peer));
    if (ready > 0 && fds[1].revents != 0) {
      return tl::make_unexpected(make_error(Errc::cancelled, Stage::connect, what, peer));
    }
    // Errors and hang-ups count as ready: the next call on the socket reports the cause.
    if (ready > 0 && fds[0].revents != 0) return {};
    if (ready <= 0 && wait.deadline.passed()) {
      return tl::make_unexpected(
          make_error(Errc::timed_out, Stage::connect, what, peer, Hint::peer_slow));
    }
  }
}

Result<void> send_all(int fd, std::span<const std::byte> data, const Wait& wait,
                      std::string_view peer) {
  while (!data.empty()) {
    const ssize_t sent = ::send(fd, data.data(), data.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      data = data.subspan(static_cast<std::size_t>(sent));
    } else if (sent < 0 && errno == EAGAIN) {
      HBMWIRE_TRY(wait_for(fd, POLLOUT, wait, "sending to the peer", peer));
    } else if (sent < 0 && errno != EINTR) {
      return tl::make_unexpected(peer_error("send", errno, peer));
    }
  }
  return {};
}

Result<void> receive_all(int fd, std::span<std::byte> data, const Wait& wait,
                         std::string_view peer) {
  while (!data.empty()) {
    const ssize_t got = ::recv(fd, data.data(), data.size(), 0);
    if (got > 0) {
      data = data.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      return tl::make_unexpected(make_error(Errc::peer_failed, Stage::connect,
                                            "the peer closed the connection", peer,
                                            Hint::peer_gone));
    } else if (errno == EAGAIN) {
      HBMWIRE_TRY(wait_for(fd, POLLIN, wait, "waiting for the peer", peer));
    } else if (errno != EINTR) {
      return tl::make_unexpected(peer_error("recv", errno, peer));
    }
  }
  return {};
}

Result<void> tune(int fd, std::string_view peer) {
  const auto set = [&](int level, int option, int value) {
    return ::setsockopt(fd, level, option, &value, sizeof value) == 0;
  };
  // After 3 s of silence the peer is probed, three times, a second apart. Sent data may stay
  // unacknowledged for 8 s. Together this keeps the promise that a vanished host is noticed within
  // 10 s.
  const bool ok = set(IPPROTO_TCP, TCP_NODELAY, 1) && set(SOL_SOCKET, SO_KEEPALIVE, 1) &&
                  set(IPPROTO_TCP, TCP_KEEPIDLE, 3) && set(IPPROTO_TCP, TCP_KEEPINTVL, 1) &&
                  set(IPPROTO_TCP, TCP_KEEPCNT, 3) && set(IPPROTO_TCP, TCP_USER_TIMEOUT, 8000);
  if (ok) return {};
  return tl::make_unexpected(system_error(Stage::connect, "setsockopt", errno, peer));
}

Result<void> set_traffic_class(int fd, std::uint8_t traffic_class, std::string_view peer) {
  sockaddr_in6 at{};  // an IPv4 address fills only its beginning
  socklen_t size = sizeof at;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    return tl::make_unexpected(peer_error("getpeername", errno, peer));
  const bool by_ipv6 = at.sin6_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&at.sin6_addr);
  const int value = traffic_class;
  const int result = by_ipv6 ? ::setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &value, sizeof value)
                             : ::setsockopt(fd, IPPROTO_IP, IP_TOS, &value, sizeof value);
  if (result == 0) return {};
  return tl::make_unexpected(system_error(Stage::connect, "setsockopt", errno, peer));
}

}  // namespace hbmwire::wire
