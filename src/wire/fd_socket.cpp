// SPDX-License-Identifier: MIT
#include "wire/fd_socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "wire/socket_io.hpp"

namespace hbmwire::wire {

namespace {

using namespace std::chrono_literals;

constexpr const char* kSubject = "attach";
// The time between attempts while the queue is full: connect(2) does not tell when there is room.
constexpr auto kQueuePause = 2ms;

/// The address of an abstract socket, as connect(2) and bind(2) take it.
struct SocketAddress {
  sockaddr_un name{};
  socklen_t size = 0;
};

/// An abstract name begins with a zero byte, and ends where the size says.
Result<SocketAddress> address_of(const std::string& name) {
  if (name.empty() || name.size() > kMaxAbstractNameBytes) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::connect,
                                          "an abstract socket's name has 1 to 100 bytes",
                                          kSubject));
  }
  SocketAddress address;
  address.name.sun_family = AF_UNIX;
  std::memcpy(&address.name.sun_path[1], name.data(), name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Result<Fd> make_socket() {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket) return socket;
  return tl::make_unexpected(system_error(Stage::connect, "socket", errno, kSubject));
}

Error gone(const char* call, int error_number) {
  Error error = system_error(Stage::connect, call, error_number, kSubject, Hint::attach_gone);
  error.code = Errc::peer_failed;
  return error;
}

/// Sleeps for kQueuePause, or until the deadline if that is sooner.
Result<void> pause(const Wait& wait) {
  pollfd cancel{wait.cancel_fd, POLLIN, 0};
  const int timeout_ms =
      std::min(wait.deadline.poll_timeout_ms(), static_cast<int>(kQueuePause / 1ms));
  if (::poll(&cancel, 1, timeout_ms) > 0) {
    return tl::make_unexpected(
        make_error(Errc::cancelled, Stage::connect, "waiting in the exporter's queue", kSubject));
  }
  if (!wait.deadline.passed()) return {};
  return tl::make_unexpected(make_error(Errc::timed_out, Stage::connect,
                                        "the exporter's queue is full", kSubject,
                                        Hint::attach_silent));
}

/// Moves the descriptors in `message` to `received`, which owns them from then on.
void take_fds(msghdr& message, ReceivedFds& received) noexcept {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      Fd owned(fd);  // closed here if there is no room for it
      if (received.count < received.fds.size()) {
        received.fds.at(received.count++) = std::move(owned);
      }
    }
  }
}

Result<Arrival> arrival(ssize_t got) {
  if (got >= 0) return static_cast<std::size_t>(got);
  if (errno == EAGAIN || errno == EINTR) return std::nullopt;
  return tl::make_unexpected(gone("recvmsg", errno));
}

}  // namespace

Result<Fd> listen_abstract(const std::string& name) {
  HBMWIRE_TRY_ASSIGN(const SocketAddress address, address_of(name));
  HBMWIRE_TRY_ASSIGN(Fd socket, make_socket());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.name), address.size) != 0) {
    return tl::make_unexpected(system_error(Stage::connect, "bind", errno, kSubject));
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) {
    return tl::make_unexpected(system_error(Stage::connect, "listen", errno, kSubject));
  }
  return socket;
}

Result<Fd> connect_abstract(const std::string& name, const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(const SocketAddress address, address_of(name));
  HBMWIRE_TRY_ASSIGN(Fd socket, make_socket());
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.name), address.size) !=
         0) {
    // Never EINPROGRESS: a unix socket connects at once, unless the queue is full.
    if (errno == EAGAIN) {
      HBMWIRE_TRY(pause(wait));
    } else if (errno != EINTR) {
      return tl::make_unexpected(gone("connect", errno));
    }
  }
  return socket;
}

Result<uid_t> peer_user(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0)
    return credentials.uid;
  return tl::make_unexpected(
      system_error(Stage::connect, "getsockopt(SO_PEERCRED)", errno, kSubject));
}

Result<Arrival> receive_bytes(int socket, std::span<std::byte> into) {
  iovec part{into.data(), into.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got >= 0 && (message.msg_flags & MSG_CTRUNC) != 0) {
    return tl::make_unexpected(make_error(Errc::protocol, Stage::connect,
                                          "the other process sent descriptors out of turn",
                                          kSubject));
  }
  return arrival(got);
}

Result<Arrival> receive_with_fd(int socket, std::span<std::byte> into, ReceivedFds& received) {
  iovec part{into.data(), into.size()};
  constexpr std::size_t kRoom = sizeof(int) * std::tuple_size_v<decltype(ReceivedFds::fds)>;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kRoom)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return arrival(got);
  take_fds(message, received);
  // If several descriptors were sent, the kernel may also have left some out. The cause is that
  // several were sent, so that is reported first.
  if (received.count > 1) {
    return tl::make_unexpected(make_error(Errc::protocol, Stage::connect,
                                          "the exporter sent more than one descriptor", kSubject));
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return tl::make_unexpected(make_error(Errc::exhausted, Stage::connect,
                                          "the descriptor could not be taken", kSubject,
                                          Hint::descriptor_limit));
  }
  return arrival(got);
}

Result<bool> send_with_fd(int socket, std::span<const std::byte> data, int fd) {
  iovec part{const_cast<std::byte*>(data.data()), data.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && errno == EAGAIN) return false;
  if (sent < 0) return tl::make_unexpected(gone("sendmsg", errno));
  // A stream socket takes a part only if its buffer is full, and this buffer was empty.
  return static_cast<std::size_t>(sent) == data.size();
}

}  // namespace hbmwire::wire
