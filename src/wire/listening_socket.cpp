// SPDX-License-Identifier: MIT
#include "wire/listening_socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <limits>
#include <string_view>
#include <utility>

#include "hbmwire/deadline.hpp"
#include "hbmwire/host_port.hpp"

#include "wire/resolve.hpp"

namespace hbmwire::wire {

namespace {

using namespace std::chrono_literals;

// As many as the administrator allows (sysctl net.core.somaxconn, 4096 by default). A peer that
// finds the queue full tries again only after a second, and then after twice as long each time.
constexpr int kBacklog = std::numeric_limits<int>::max();

Error listen_error(const char* call, int error_number, const std::string& where) {
  Hint hint = Hint::none;
  if (error_number == EADDRINUSE) hint = Hint::port_in_use;
  if (error_number == EACCES) hint = Hint::port_privileged;
  if (error_number == EADDRNOTAVAIL) hint = Hint::not_our_address;
  if (error_number == EINVAL) hint = Hint::address_scope;
  return system_error(Stage::connect, call, error_number, where, hint);
}

/// EAGAIN is no shortage: it says that no peer waits.
bool is_shortage_of_sockets(int error_number) noexcept {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS ||
         error_number == ENOMEM;
}

Result<Fd> open_listener(const addrinfo& address, const std::string& where) {
  Fd socket{::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) return tl::make_unexpected(listen_error("socket", errno, where));
  const int on = 1;
  const int off = 0;
  // A server that ended a moment ago leaves connections in TIME_WAIT, which must not keep the next
  // server from listening.
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ai_family == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off,
                 sizeof off);  // accepts IPv4, too
  }
  if (::bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    return tl::make_unexpected(listen_error("bind", errno, where));
  }
  if (::listen(socket.get(), kBacklog) != 0)
    return tl::make_unexpected(listen_error("listen", errno, where));
  return socket;
}

std::uint16_t port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string name_of_peer(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = {};
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, nullptr, 0,
                NI_NUMERICHOST);
  std::string_view text = host;
  constexpr std::string_view kMapped = "::ffff:";
  if (text.starts_with(kMapped)) text.remove_prefix(kMapped.size());
  return join_host_port(text, port_of(address));
}

}  // namespace

Result<HostPort> listening_place(const std::string& address, std::uint16_t port) {
  if (address.empty()) return HostPort{"", port};
  HBMWIRE_TRY_ASSIGN(HostPort place, split_host_port(address, port));
  if (port == 0 || place.port == port) return place;
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::connect,
                                        "the address to listen on has another port than was asked "
                                        "for beside it",
                                        address));
}

Result<ListeningSocket> listen_on(const std::string& address, std::uint16_t port) {
  HBMWIRE_TRY_ASSIGN(const HostPort place, listening_place(address, port));
  const std::string where = place.host.empty() ? "port " + std::to_string(place.port)
                                               : join_host_port(place.host, place.port);
  HBMWIRE_TRY_ASSIGN(AddressList list,
                     resolve(place.host, place.port, /*passive=*/true, {Deadline::after(5s), -1}));
  Error reason = make_error(Errc::not_found, Stage::connect, "no address to listen on", where,
                            Hint::name_resolution);
  // IPv6 comes first: if no address was named, its socket accepts IPv4 as well. A machine without
  // IPv6 needs the second round.
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* candidate = list.get(); candidate != nullptr;
         candidate = candidate->ai_next) {
      if (candidate->ai_family != family) continue;
      auto socket = open_listener(*candidate, where);
      if (!socket) {
        reason = socket.error();
        if (reason.number == EAFNOSUPPORT || reason.number == EADDRNOTAVAIL) continue;
        return tl::make_unexpected(reason);
      }
      sockaddr_storage bound{};
      socklen_t size = sizeof bound;
      ::getsockname(socket->get(), reinterpret_cast<sockaddr*>(&bound), &size);
      ListeningSocket listening{std::move(*socket), port_of(bound), {}};
      if (!keep_reserve(listening)) return tl::make_unexpected(listen_error("open", errno, where));
      return listening;
    }
  }
  return tl::make_unexpected(reason);
}

AcceptedSocket accept_one(ListeningSocket& listening) {
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  const auto accept = [&] {
    size = sizeof from;
    return Fd{::accept4(listening.socket.get(), reinterpret_cast<sockaddr*>(&from), &size,
                        SOCK_CLOEXEC | SOCK_NONBLOCK)};
  };
  AcceptedSocket accepted;
  accepted.socket = accept();
  if (!accepted.socket && is_shortage_of_sockets(errno)) {
    const int shortage = errno;
    listening.reserve.reset();
    accepted.socket = accept();
    accepted.peer =
        accepted.socket ? name_of_peer(from, size) : "port " + std::to_string(listening.port);
    accepted.shortage = system_error(Stage::connect, "accept4", shortage, accepted.peer);
  } else if (accepted.socket) {
    accepted.peer = name_of_peer(from, size);
  }
  return accepted;
}

bool keep_reserve(ListeningSocket& listening) noexcept {
  if (!listening.reserve) listening.reserve = Fd{::open("/", O_PATH | O_CLOEXEC)};
  return static_cast<bool>(listening.reserve);
}

}  // namespace hbmwire::wire
