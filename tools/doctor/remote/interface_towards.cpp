// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/interface_towards.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "hbmwire/fd.hpp"

namespace hbmwire::tools::doctor {
namespace {

/// RTM_GETROUTE for one destination: the message, and room for two attributes.
struct RouteRequest {
  nlmsghdr header{};
  rtmsg route{};
  std::array<std::byte, 64> attributes{};

  void add(unsigned short type, const void* value, std::size_t size) {
    const rtattr attribute{.rta_len = static_cast<unsigned short>(RTA_LENGTH(size)),
                           .rta_type = type};
    std::byte* place = attributes.data() + (header.nlmsg_len - NLMSG_LENGTH(sizeof route));
    std::memcpy(place, &attribute, sizeof attribute);
    std::memcpy(place + RTA_LENGTH(0), value, size);
    header.nlmsg_len += static_cast<std::uint32_t>(RTA_SPACE(size));
  }
};

static_assert(offsetof(RouteRequest, attributes) == NLMSG_LENGTH(sizeof(rtmsg)));

RouteRequest route_request(const IpAddress& address) {
  RouteRequest request;
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof request.route);
  request.header.nlmsg_type = RTM_GETROUTE;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.route.rtm_family = static_cast<unsigned char>(address.storage.ss_family);
  if (address.is_ipv6()) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
    request.route.rtm_dst_len = 128;  // bits: one address
    request.add(RTA_DST, &v6.sin6_addr, sizeof v6.sin6_addr);
    if (v6.sin6_scope_id != 0) request.add(RTA_OIF, &v6.sin6_scope_id, sizeof v6.sin6_scope_id);
  } else {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
    request.route.rtm_dst_len = 32;  // bits: one address
    request.add(RTA_DST, &v4.sin_addr, sizeof v4.sin_addr);
  }
  return request;
}

/// The bytes after the header. NLMSG_DATA() contains an old-style cast.
const std::byte* payload_of(const nlmsghdr& header) {
  return reinterpret_cast<const std::byte*>(&header) + NLMSG_HDRLEN;
}

/// The index of the interface in the kernel's answer; 0 and the errno if it has none.
unsigned index_in(const nlmsghdr& header, std::size_t size, int& error) {
  error = EPROTO;
  if (!NLMSG_OK(&header, size)) return 0;
  if (header.nlmsg_type == NLMSG_ERROR && header.nlmsg_len >= NLMSG_LENGTH(sizeof(nlmsgerr))) {
    error = -reinterpret_cast<const nlmsgerr*>(payload_of(header))->error;
    return 0;
  }
  if (header.nlmsg_type != RTM_NEWROUTE || header.nlmsg_len < NLMSG_LENGTH(sizeof(rtmsg))) return 0;
  const auto* route = reinterpret_cast<const rtmsg*>(payload_of(header));
  auto left = header.nlmsg_len - NLMSG_LENGTH(sizeof(rtmsg));
  for (const rtattr* each = RTM_RTA(route); RTA_OK(each, left); each = RTA_NEXT(each, left)) {
    if (each->rta_type != RTA_OIF || RTA_PAYLOAD(each) != sizeof(unsigned)) continue;
    unsigned index = 0;
    std::memcpy(&index, RTA_DATA(each), sizeof index);
    return index;
  }
  return 0;
}

}  // namespace

Result<LocalInterface> interface_of_index(unsigned index) {
  const Fd any{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};  // the request needs any socket
  ifreq request{};
  if (!any) return tl::make_unexpected(system_error(Stage::probe, "socket", errno));
  if (::if_indextoname(index, request.ifr_name) == nullptr)
    return tl::make_unexpected(system_error(Stage::probe, "if_indextoname", errno));
  if (::ioctl(any.get(), SIOCGIFMTU, &request) != 0)
    return tl::make_unexpected(system_error(Stage::probe, "SIOCGIFMTU", errno, request.ifr_name));
  return LocalInterface{request.ifr_name, static_cast<std::uint32_t>(request.ifr_mtu)};
}

Result<LocalInterface> interface_towards(const IpAddress& address) {
  const Fd netlink{::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)};
  if (!netlink) return tl::make_unexpected(system_error(Stage::probe, "socket(AF_NETLINK)", errno));
  const RouteRequest request = route_request(address);
  if (::send(netlink.get(), &request, request.header.nlmsg_len, 0) < 0)
    return tl::make_unexpected(system_error(Stage::probe, "RTM_GETROUTE", errno, address.host));
  // The kernel writes its answer before send(2) returns.
  alignas(nlmsghdr) std::array<std::byte, 4096> answer{};
  const ssize_t got = ::recv(netlink.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  if (got < 0)
    return tl::make_unexpected(system_error(Stage::probe, "RTM_GETROUTE", errno, address.host));
  int error = 0;
  const unsigned index =
      index_in(reinterpret_cast<const nlmsghdr&>(answer), static_cast<std::size_t>(got), error);
  if (index == 0)
    return tl::make_unexpected(system_error(Stage::probe, "RTM_GETROUTE", error, address.host));
  return interface_of_index(index);
}

}  // namespace hbmwire::tools::doctor
