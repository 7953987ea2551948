// SPDX-License-Identifier: MIT
#include "wire/dial.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <utility>

#include "hbmwire/wire.hpp"

#include "wire/resolve.hpp"
#include "wire/socket_io.hpp"

namespace hbmwire::wire {

namespace {

Error connect_error(int error_number, const std::string& peer) {
  Hint hint = Hint::host_unreachable;
  if (error_number == ECONNREFUSED) hint = Hint::connection_refused;
  return system_error(Stage::connect, "connect", error_number, peer, hint);
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

Result<Fd> start_dial(const addrinfo& address, const std::string& peer) {
  Fd socket{::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) return tl::make_unexpected(system_error(Stage::connect, "socket", errno, peer));
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS)
    return tl::make_unexpected(connect_error(errno, peer));
  return socket;
}

Result<void> finish_dial(int fd, const std::string& peer) {
  int failure = 0;
  socklen_t size = sizeof failure;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure != 0) return tl::make_unexpected(connect_error(failure, peer));
  return tune(fd, peer);
}

Result<HostPort> parse_host_port(std::string_view where) {
  const std::size_t colon = where.rfind(':');
  std::string_view host = where.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  std::uint16_t port = 0;
  const std::string_view digits = colon == std::string_view::npos ? "" : where.substr(colon + 1);
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  const bool good = !host.empty() && failure == std::errc{} &&
                    end == digits.data() + digits.size() && port != 0 &&
                    (bracketed || host.find(':') == std::string_view::npos);
  if (!good) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::connect,
                                          "a peer is HOST:PORT, or [IPV6]:PORT", where));
  }
  return HostPort{std::string(host), port};
}

Result<Fd> dial(const std::string& host, std::uint16_t port, const std::string& peer,
                const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(AddressList addresses, resolve(host, port, false, wait));
  Fd socket;
  HBMWIRE_TRY(
      AddressWalk(std::move(addresses), peer).next([&](const addrinfo& address) -> Result<void> {
        HBMWIRE_TRY_ASSIGN(socket, dial(address, peer, wait));
        return {};
      }));
  return socket;
}

Result<ControlChannel> ControlChannel::connect(const std::string& host, std::uint16_t port,
                                               const Wait& wait) {
  const std::string peer = host + ":" + std::to_string(port);
  HBMWIRE_TRY_ASSIGN(Fd socket, dial(host, port, peer, wait));
  ControlChannel channel(std::move(socket), peer);
  HBMWIRE_TRY(channel.exchange_preambles(wait));
  return channel;
}

}  // namespace hbmwire::wire
