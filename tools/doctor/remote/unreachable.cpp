// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/unreachable.hpp"

#include <linux/errqueue.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/uio.h>

#include <array>
#include <cstring>
#include <ctime>  // before linux/errqueue.h, which uses its types

namespace hbmwire::tools::doctor {
namespace {

using UnreachableCause = Unreachable::Cause;

std::optional<UnreachableCause> cause_of_v4(std::uint8_t type, std::uint8_t code) {
  if (type != ICMP_DEST_UNREACH) return std::nullopt;
  switch (code) {
    case ICMP_NET_UNREACH:
    case ICMP_NET_UNKNOWN:
      return UnreachableCause::no_route;
    case ICMP_PORT_UNREACH:
    case ICMP_PROT_UNREACH:
      return UnreachableCause::no_port;
    case ICMP_FRAG_NEEDED:
      return UnreachableCause::too_big;
    case ICMP_NET_ANO:
    case ICMP_HOST_ANO:
    case ICMP_PKT_FILTERED:
      return UnreachableCause::prohibited;
    default:
      return UnreachableCause::no_host;
  }
}

std::optional<UnreachableCause> cause_of_v6(std::uint8_t type, std::uint8_t code) {
  // RFC 4443 section 3.1. The C library's header does not name the last two.
  constexpr std::uint8_t kFailedPolicy = 5;
  constexpr std::uint8_t kRejectRoute = 6;
  if (type == ICMP6_PACKET_TOO_BIG) return UnreachableCause::too_big;
  if (type != ICMP6_DST_UNREACH) return std::nullopt;
  switch (code) {
    case ICMP6_DST_UNREACH_NOROUTE:
    case ICMP6_DST_UNREACH_BEYONDSCOPE:
      return UnreachableCause::no_route;
    case ICMP6_DST_UNREACH_NOPORT:
      return UnreachableCause::no_port;
    case ICMP6_DST_UNREACH_ADMIN:
    case kFailedPolicy:
    case kRejectRoute:
      return UnreachableCause::prohibited;
    default:
      return UnreachableCause::no_host;
  }
}

/// The sender of an ICMP message, whose address follows the error (SO_EE_OFFENDER).
std::string offender_of(const cmsghdr& header) {
  std::array<unsigned char, sizeof(sock_extended_err) + sizeof(sockaddr_in6)> bytes{};
  const std::size_t size = header.cmsg_len - CMSG_LEN(0);
  if (size > bytes.size()) return {};
  std::memcpy(bytes.data(), CMSG_DATA(&header), size);
  sockaddr_in6 who{};
  std::memcpy(&who, bytes.data() + sizeof(sock_extended_err), sizeof who);
  const auto* address = reinterpret_cast<const sockaddr*>(&who);
  return ip_address_of(address, who.sin6_family == AF_INET ? sizeof(sockaddr_in) : sizeof who).host;
}

std::optional<Unreachable> unreachable_in(const cmsghdr& header, const std::string& own) {
  const bool is_v4 = header.cmsg_level == IPPROTO_IP && header.cmsg_type == IP_RECVERR;
  const bool is_v6 = header.cmsg_level == IPPROTO_IPV6 && header.cmsg_type == IPV6_RECVERR;
  sock_extended_err said{};
  if ((!is_v4 && !is_v6) || header.cmsg_len < CMSG_LEN(sizeof said)) return std::nullopt;
  std::memcpy(&said, CMSG_DATA(&header), sizeof said);
  if (said.ee_origin != SO_EE_ORIGIN_ICMP && said.ee_origin != SO_EE_ORIGIN_ICMP6)
    return std::nullopt;
  const auto cause =
      is_v4 ? cause_of_v4(said.ee_type, said.ee_code) : cause_of_v6(said.ee_type, said.ee_code);
  if (!cause) return std::nullopt;
  Unreachable made{.cause = *cause, .by = offender_of(header), .mtu_bytes = 0};
  if (made.cause == UnreachableCause::too_big) made.mtu_bytes = said.ee_info;
  if (made.cause == UnreachableCause::no_host && made.by == own)
    made.cause = UnreachableCause::no_neighbor;
  return made;
}

}  // namespace

void keep_unreachable(int fd, const IpAddress& destination) noexcept {
  const int on = 1;
  if (destination.is_ipv6())
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof on);
  else
    ::setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on);
}

std::optional<Unreachable> take_unreachable(int fd, const std::string& own) {
  std::optional<Unreachable> first;
  while (true) {
    std::array<char, 64> packet{};  // the beginning of the lost packet, which is not needed
    alignas(cmsghdr) std::array<char, 512> control{};
    iovec part{.iov_base = packet.data(), .iov_len = packet.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return first;
    for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr && !first;
         each = CMSG_NXTHDR(&message, each))
      first = unreachable_in(*each, own);
  }
}

std::string own_host(int fd) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  if (::getsockname(fd, address, &length) != 0) return {};
  return ip_address_of(address, length).host;
}

}  // namespace hbmwire::tools::doctor
