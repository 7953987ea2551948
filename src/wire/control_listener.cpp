// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "hbmwire/wire.hpp"

#include "wire/resolve.hpp"
#include "wire/socket_io.hpp"

namespace hbmwire::wire {

namespace {

using namespace std::chrono_literals;

// A connection that says nothing for this long is closed; it keeps nobody waiting meanwhile.
constexpr auto kSilence = 5s;
// More silent connections than this at once, and the oldest goes.
constexpr std::size_t kMaxPending = 64;
constexpr int kBacklog = 64;
constexpr auto kDescriptorPause = 50ms;

Error listen_error(const char* call, int error_number, const std::string& where) {
  Hint hint = Hint::none;
  if (error_number == EADDRINUSE) hint = Hint::port_in_use;
  if (error_number == EACCES) hint = Hint::port_privileged;
  if (error_number == EADDRNOTAVAIL) hint = Hint::not_our_address;
  return system_error(Stage::connect, call, error_number, where, hint);
}

Result<Fd> open_listener(const addrinfo& address, const std::string& where) {
  Fd socket{::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) return tl::make_unexpected(listen_error("socket", errno, where));
  const int on = 1;
  const int off = 0;
  // A server that ended a moment ago leaves connections in TIME_WAIT; they must not keep the next
  // one out.
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ai_family == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off,
                 sizeof off);  // IPv4 comes in here, too
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
  char service[NI_MAXSERV] = {};
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, service,
                sizeof service, NI_NUMERICHOST | NI_NUMERICSERV);
  std::string text = host;
  constexpr std::string_view kMapped = "::ffff:";
  if (text.starts_with(kMapped)) text.erase(0, kMapped.size());
  return (text.find(':') != std::string::npos ? "[" + text + "]" : text) + ":" + service;
}

}  // namespace

Result<ControlListener> ControlListener::listen(const std::string& address, std::uint16_t port) {
  const std::string where = (address.empty() ? "port" : address) + " " + std::to_string(port);
  HBMWIRE_TRY_ASSIGN(AddressList list, resolve(address, port, true, {Deadline::after(5s), -1}));
  Error reason = make_error(Errc::not_found, Stage::connect, "no address to listen on", where,
                            Hint::name_resolution);
  // IPv6 first where nothing was named: its socket takes IPv4 as well; a machine without IPv6 gets
  // the second round.
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
      return ControlListener(std::move(*socket), port_of(bound));
    }
  }
  return tl::make_unexpected(reason);
}

void ControlListener::take_connection() {
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  Fd socket{::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&from), &size,
                      SOCK_CLOEXEC | SOCK_NONBLOCK)};
  const bool full = !socket && (errno == EMFILE || errno == ENFILE);
  // Out of descriptors, the connection stays in the queue and poll(2) reports it again at once.
  if (full && pending_.empty()) std::this_thread::sleep_for(kDescriptorPause);
  if ((full || pending_.size() >= kMaxPending) && !pending_.empty()) {
    pending_.erase(pending_.begin());
  }
  if (socket) {
    pending_.push_back({std::move(socket), name_of_peer(from, size), Deadline::after(kSilence)});
  }
}

Result<ControlListener::Accepted> ControlListener::accept(const Wait& wait) {
  while (!wait.deadline.passed()) {
    std::vector<pollfd> fds{{socket_.get(), POLLIN, 0}, {wait.cancel_fd, POLLIN, 0}};
    int timeout_ms = wait.deadline.poll_timeout_ms();
    for (const Pending& pending : pending_) {
      fds.push_back({pending.socket.get(), POLLIN, 0});
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
      if (fds[i + 2].revents == 0) continue;
      Accepted accepted{std::move(pending_[i].socket), std::move(pending_[i].peer)};
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
      return accepted;
    }
    std::erase_if(pending_, [](const Pending& pending) { return pending.deadline.passed(); });
    if (fds[0].revents != 0) take_connection();
  }
  return tl::make_unexpected(make_error(Errc::timed_out, Stage::connect, "no client came"));
}

}  // namespace hbmwire::wire
