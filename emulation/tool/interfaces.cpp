// SPDX-License-Identifier: MIT
#include "emulation/tool/interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netpacket/packet.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

namespace hbmwire::emulation::tool {
namespace {

struct Addresses {
  std::vector<GidBytes> default_gid;
  std::vector<GidBytes> ipv4;
  std::vector<GidBytes> ipv6;
};

void take_packet_address(const sockaddr* address, Addresses& into) {
  sockaddr_ll link{};
  std::memcpy(&link, address, sizeof link);
  std::array<std::uint8_t, 6> mac{};
  if (link.sll_hatype != ARPHRD_ETHER || link.sll_halen != mac.size()) return;
  std::copy_n(std::begin(link.sll_addr), mac.size(), mac.begin());
  into.default_gid.push_back(link_local_of(mac));
}

void take_ipv4_address(const sockaddr* address, Addresses& into) {
  sockaddr_in ipv4{};
  std::memcpy(&ipv4, address, sizeof ipv4);
  GidBytes gid{};
  gid[10] = gid[11] = 0xff;
  std::memcpy(&gid[12], &ipv4.sin_addr, sizeof ipv4.sin_addr);
  into.ipv4.push_back(gid);
}

void take_ipv6_address(const sockaddr* address, Addresses& into) {
  sockaddr_in6 ipv6{};
  std::memcpy(&ipv6, address, sizeof ipv6);
  GidBytes gid{};
  std::memcpy(gid.data(), &ipv6.sin6_addr, gid.size());
  into.ipv6.push_back(gid);
}

// The kernel first enters the address made from the MAC address, then the IPv4 addresses, then the
// IPv6 addresses. The first may be one of the IPv6 addresses too, and is listed only once.
std::vector<GidBytes> in_order(const Addresses& addresses) {
  std::vector<GidBytes> gids;
  for (const auto* some : {&addresses.default_gid, &addresses.ipv4, &addresses.ipv6}) {
    for (const GidBytes& gid : *some) {
      if (std::ranges::find(gids, gid) == gids.end()) gids.push_back(gid);
    }
  }
  return gids;
}

}  // namespace

GidBytes link_local_of(const std::array<std::uint8_t, 6>& mac) {
  constexpr std::uint8_t kUniversalBit = 0x02;
  return {0xfe,   0x80,   0,
          0,      0,      0,
          0,      0,      static_cast<std::uint8_t>(mac[0] ^ kUniversalBit),
          mac[1], mac[2], 0xff,
          0xfe,   mac[3], mac[4],
          mac[5]};
}

std::vector<Interface> interfaces_here() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(first, ::freeifaddrs);
  std::map<unsigned, std::pair<std::string, Addresses>> found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0 ||
        (entry->ifa_flags & IFF_LOOPBACK) != 0) {
      continue;
    }
    // An IPv4 address may have a label, "eth0:1".
    const std::string label = entry->ifa_name;
    const std::string name = label.substr(0, label.find(':'));
    auto& [kept_name, addresses] = found[::if_nametoindex(name.c_str())];
    kept_name = name;
    switch (entry->ifa_addr->sa_family) {
      case AF_PACKET:
        take_packet_address(entry->ifa_addr, addresses);
        break;
      case AF_INET:
        take_ipv4_address(entry->ifa_addr, addresses);
        break;
      case AF_INET6:
        take_ipv6_address(entry->ifa_addr, addresses);
        break;
      default:
        break;
    }
  }
  std::vector<Interface> interfaces;
  for (const auto& [number, named] : found) {
    const auto& [name, addresses] = named;
    if (number == 0 || (addresses.ipv4.empty() && addresses.ipv6.empty())) continue;
    interfaces.push_back({name, in_order(addresses)});
  }
  return interfaces;
}

}  // namespace hbmwire::emulation::tool
