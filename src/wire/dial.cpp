// SPDX-License-Identifier: MIT
#include "wire/dial.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "wire/resolve.hpp"
#include "wire/socket_io.hpp"

namespace hbmwire::wire {

namespace {

Error connect_error(int error_number, const std::string& peer) {
  Hint hint = Hint::host_unreachable;
  if (error_number == ECONNREFUSED) hint = Hint::connection_refused;
  // Linux reports this for a link-local address without an interface, ipv6(7).
  if (error_number == EINVAL) hint = Hint::address_scope;
  return system_error(Stage::connect, "connect", error_number, peer, hint);
}

/// Whether the socket is connected to itself: if no program listens at a port of this machine, the
/// kernel may give that very port to the socket that connects there (RFC 9293, simultaneous open).
bool is_own_peer(int fd) noexcept {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_size = sizeof own;
  socklen_t peer_size = sizeof peer;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
         own_size == peer_size && std::memcmp(&own, &peer, own_size) == 0;
}

Result<Fd> dial(const addrinfo& address, const std::string& peer, const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(Fd socket, start_dial(address, peer));
  if (auto ready =
          wait_for(socket.get(), POLLOUT, wait, "no answer to the connection request", peer);
      !ready) {
    Error error = ready.error();
    if (error.code == Errc::timed_out) error.hint = Hint::host_unreachable;
    return tl::make_unexpected(error);
  }
  HBMWIRE_TRY(finish_dial(socket.get(), peer));
  return socket;
}

}  // namespace

Result<Fd> start_dial(const addrinfo& address, const std::string& peer,
                      std::optional<std::uint32_t> segment_bytes) {
  Fd socket{::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) return tl::make_unexpected(system_error(Stage::connect, "socket", errno, peer));
  if (segment_bytes) {
    // Set before connecting, because the connection request tells the peer this value.
    const int most = static_cast<int>(*segment_bytes);
    if (::setsockopt(socket.get(), IPPROTO_TCP, TCP_MAXSEG, &most, sizeof most) != 0)
      return tl::make_unexpected(system_error(Stage::connect, "setsockopt", errno, peer));
  }
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS)
    return tl::make_unexpected(connect_error(errno, peer));
  return socket;
}

Result<void> finish_dial(int fd, const std::string& peer) {
  int failure = 0;
  socklen_t size = sizeof failure;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure == 0 && is_own_peer(fd)) {
    // Closed without TIME_WAIT, which would keep the port from the program that is to listen there.
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    failure = ECONNREFUSED;
  }
  if (failure != 0) return tl::make_unexpected(connect_error(failure, peer));
  return tune(fd, peer);
}

Result<Fd> dial(const std::string& host, std::uint16_t port, const std::string& peer,
                const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(AddressList addresses, resolve(host, port, /*passive=*/false, wait));
  Fd socket;
  AddressWalk walk(std::move(addresses), peer, wait.deadline);
  HBMWIRE_TRY(walk.next([&](const addrinfo& address) -> Result<void> {
    HBMWIRE_TRY_ASSIGN(socket, dial(address, peer, {walk.attempt(), wait.cancel_fd}));
    return {};
  }));
  return socket;
}

}  // namespace hbmwire::wire
