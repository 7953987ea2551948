// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/datagram_echo.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "tools/doctor/remote/interface_towards.hpp"

namespace hbmwire::tools::doctor {
namespace {

void put_u32(std::span<std::uint8_t, 4> place, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) place[i] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
}

std::uint32_t take_u32(std::span<const std::uint8_t, 4> place) {
  std::uint32_t value = 0;
  for (const std::uint8_t byte : place) value = value << 8U | byte;
  return value;
}

/// Switches an option of a socket on.
void set_option(int fd, int level, int name) {
  const int on = 1;
  ::setsockopt(fd, level, name, &on, sizeof on);
}

/// Binds a socket to all addresses of the family. A `port` of 0 means a free one, which is then
/// stored there.
Result<Fd> bind_echo(int family, std::uint16_t& port) {
  Fd fd{::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!fd) return tl::make_unexpected(system_error(Stage::connect, "socket", errno, "UDP"));
  // Large datagrams to many addresses arrive at once. The kernel limits this to net.core.rmem_max.
  const int room_bytes = 1 << 20;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &room_bytes, sizeof room_bytes);
  sockaddr_in6 any{};  // the port has the same place in sockaddr_in, and zeros mean any address
  any.sin6_family = static_cast<sa_family_t>(family);
  any.sin6_port = htons(port);
  auto* address = reinterpret_cast<sockaddr*>(&any);
  socklen_t length = family == AF_INET6 ? sizeof any : sizeof(sockaddr_in);
  if (family == AF_INET6) {
    set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY);
    set_option(fd.get(), IPPROTO_IPV6, IPV6_RECVPKTINFO);
  } else {
    set_option(fd.get(), IPPROTO_IP, IP_PKTINFO);
  }
  if (::bind(fd.get(), address, length) != 0) {
    const std::string subject = "UDP port " + std::to_string(port);
    return tl::make_unexpected(system_error(Stage::connect, "bind", errno, subject,
                                            errno == EADDRINUSE ? Hint::port_in_use : Hint::none));
  }
  if (::getsockname(fd.get(), address, &length) != 0)
    return tl::make_unexpected(system_error(Stage::connect, "getsockname", errno, "UDP"));
  port = ntohs(any.sin6_port);
  return fd;
}

bool is_without_family(const Error& error) {
  return error.number_kind == NumberKind::errno_value &&
         (error.number == EAFNOSUPPORT || error.number == EADDRNOTAVAIL);
}

/// A received message, and room for the control data of recvmsg(2) and sendmsg(2).
struct EchoMessage {
  sockaddr_storage peer{};
  std::array<std::uint8_t, ProbeHeader::kBytes> bytes{};
  alignas(cmsghdr) std::array<char, 256> control{};
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr message{};

  EchoMessage() {
    message.msg_name = &peer;
    message.msg_namelen = sizeof peer;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
};

/// Makes the answer leave from the address that the datagram was sent to: the peer's connected
/// socket drops answers from another address. Returns the index of the interface that received the
/// datagram; 0 if unknown.
unsigned answer_from_asked(EchoMessage& received) {
  for (cmsghdr* each = CMSG_FIRSTHDR(&received.message); each != nullptr;
       each = CMSG_NXTHDR(&received.message, each)) {
    if (each->cmsg_level == IPPROTO_IP && each->cmsg_type == IP_PKTINFO) {
      in_pktinfo info{};
      std::memcpy(&info, CMSG_DATA(each), sizeof info);
      const auto index = static_cast<unsigned>(info.ipi_ifindex);
      info.ipi_ifindex = 0;  // the routing table chooses the answer's interface
      std::memcpy(CMSG_DATA(each), &info, sizeof info);
      return index;
    }
    if (each->cmsg_level == IPPROTO_IPV6 && each->cmsg_type == IPV6_PKTINFO) {
      in6_pktinfo info{};
      std::memcpy(&info, CMSG_DATA(each), sizeof info);
      const unsigned index = info.ipi6_ifindex;
      // A link-local address means something on its interface only.
      if (!IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr)) info.ipi6_ifindex = 0;
      std::memcpy(CMSG_DATA(each), &info, sizeof info);
      return index;
    }
  }
  return 0;
}

}  // namespace

std::array<std::uint8_t, ProbeHeader::kBytes> encode_header(const ProbeHeader& header) {
  std::array<std::uint8_t, ProbeHeader::kBytes> bytes{};
  std::ranges::copy(header.nonce, bytes.begin());
  put_u32(std::span(bytes).subspan<sizeof(Nonce), 4>(), header.number);
  return bytes;
}

std::array<std::uint8_t, ProbeAnswer::kBytes> encode_answer(const ProbeAnswer& answer) {
  std::array<std::uint8_t, ProbeAnswer::kBytes> bytes{};
  std::ranges::copy(encode_header(answer.header), bytes.begin());
  put_u32(std::span(bytes).subspan<ProbeHeader::kBytes, 4>(), answer.received_bytes);
  put_u32(std::span(bytes).subspan<ProbeHeader::kBytes + 4, 4>(), answer.mtu_bytes);
  return bytes;
}

std::optional<ProbeHeader> decode_header(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < ProbeHeader::kBytes) return std::nullopt;
  ProbeHeader header;
  std::copy_n(bytes.begin(), header.nonce.size(), header.nonce.begin());
  header.number = take_u32(bytes.subspan<sizeof(Nonce), 4>());
  return header;
}

std::optional<ProbeAnswer> decode_answer(std::span<const std::uint8_t> bytes) {
  if (bytes.size() != ProbeAnswer::kBytes) return std::nullopt;
  return ProbeAnswer{.header = *decode_header(bytes),
                     .received_bytes = take_u32(bytes.subspan<ProbeHeader::kBytes, 4>()),
                     .mtu_bytes = take_u32(bytes.subspan<ProbeHeader::kBytes + 4, 4>())};
}

Result<DatagramEcho> DatagramEcho::create(std::uint16_t port, const Nonce& nonce) {
  // A port that the kernel chose for IPv4 may be in use for IPv6.
  for (int tries = port == 0 ? 8 : 1;; --tries) {
    std::uint16_t chosen = port;
    auto v4 = bind_echo(AF_INET, chosen);
    if (!v4 && !is_without_family(v4.error())) return tl::make_unexpected(v4.error());
    auto v6 = bind_echo(AF_INET6, chosen);
    if (v6) return DatagramEcho(v4 ? std::move(*v4) : Fd(), std::move(*v6), chosen, nonce);
    if (v4 && is_without_family(v6.error()))
      return DatagramEcho(std::move(*v4), Fd(), chosen, nonce);
    if (!v4 || tries == 1) return tl::make_unexpected(v6.error());
  }
}

std::uint32_t DatagramEcho::answer() {
  constexpr std::uint32_t kMostInACall = 128;  // for each family
  return answer_on(v4_.get(), kMostInACall) + answer_on(v6_.get(), kMostInACall);
}

std::uint32_t DatagramEcho::answer_on(int fd, std::uint32_t most) {
  std::uint32_t answered = 0;
  bool empty = fd < 0;
  for (std::uint32_t i = 0; i < most && !empty; ++i) {
    if (answer_one(fd, empty)) ++answered;
  }
  return answered;
}

bool DatagramEcho::answer_one(int fd, bool& empty) {
  EchoMessage received;
  // With MSG_TRUNC the call returns the whole size of the datagram, although it copies only its
  // beginning.
  const ssize_t got = ::recvmsg(fd, &received.message, MSG_DONTWAIT | MSG_TRUNC);
  empty = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  if (got < static_cast<ssize_t>(kSmallestProbe)) return false;
  const auto header = decode_header(received.bytes);
  if (!header || header->nonce != nonce_ || !count_in_second()) return false;
  const auto interface = interface_of_index(answer_from_asked(received));
  auto answer = encode_answer({.header = *header,
                               .received_bytes = static_cast<std::uint32_t>(got),
                               .mtu_bytes = interface ? interface->mtu_bytes : 0});
  received.part = {.iov_base = answer.data(), .iov_len = answer.size()};
  received.message.msg_flags = 0;
  return ::sendmsg(fd, &received.message, MSG_DONTWAIT) == static_cast<ssize_t>(answer.size());
}

bool DatagramEcho::count_in_second() {
  if (second_.passed()) {
    second_ = Deadline::after(std::chrono::seconds(1));
    in_second_ = 0;
  }
  return ++in_second_ <= kMostInASecond;
}

}  // namespace hbmwire::tools::doctor
