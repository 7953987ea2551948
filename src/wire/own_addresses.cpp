// SPDX-License-Identifier: MIT
#include "wire/own_addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netpacket/packet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <tuple>

namespace hbmwire::wire {

namespace {

constexpr std::size_t kMostHardwareBytes = 20;  // IPoIB's, the longest of all

bool is_ipv4(const IpBytes& address) noexcept {
  constexpr IpBytes kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(address.begin(), address.begin() + 12, kMapped.begin());
}

/// 169.254.0.0/16 (RFC 3927), fe80::/10 (RFC 4291).
bool is_link_local(const IpBytes& address) noexcept {
  if (is_ipv4(address)) return address[12] == 169 && address[13] == 254;
  return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

/// 127.0.0.0/8 and ::1, on any interface.
bool is_loopback(const IpBytes& address) noexcept {
  if (is_ipv4(address)) return address[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(reinterpret_cast<const in6_addr*>(address.data())) != 0;
}

/// fc00::/7 (RFC 4193).
bool is_unique_local(const IpBytes& address) noexcept { return (address[0] & 0xfe) == 0xfc; }

std::string text_of(const IpBytes& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool ipv4 = is_ipv4(address);
  ::inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? &address[12] : address.data(), text.data(),
              text.size());
  return text.data();
}

/// Adds an IP address, or notes the hardware address.
void take(const sockaddr& address, OwnInterface& into) {
  IpBytes bytes{};
  if (address.sa_family == AF_INET) {
    sockaddr_in ipv4{};
    std::memcpy(&ipv4, &address, sizeof ipv4);
    bytes[10] = bytes[11] = 0xff;
    std::memcpy(&bytes[12], &ipv4.sin_addr, sizeof ipv4.sin_addr);
    into.addresses.push_back(bytes);
  } else if (address.sa_family == AF_INET6) {
    sockaddr_in6 ipv6{};
    std::memcpy(&ipv6, &address, sizeof ipv6);
    std::memcpy(bytes.data(), &ipv6.sin6_addr, bytes.size());
    into.addresses.push_back(bytes);
  } else if (address.sa_family == AF_PACKET) {
    sockaddr_ll link{};
    std::memcpy(&link, &address, sizeof link);
    // libc stores longer addresses than sockaddr_ll declares, up to 24 bytes.
    const auto* const first =
        reinterpret_cast<const std::uint8_t*>(&address) + offsetof(sockaddr_ll, sll_addr);
    into.hardware.assign(first, first + std::min<std::size_t>(link.sll_halen, kMostHardwareBytes));
  }
}

}  // namespace

Result<std::vector<OwnInterface>> own_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0)
    return tl::make_unexpected(system_error(Stage::connect, "getifaddrs", errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(first, ::freeifaddrs);
  std::vector<OwnInterface> interfaces;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    constexpr unsigned kWorks = IFF_UP | IFF_RUNNING;
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & kWorks) != kWorks) continue;
    // The name may have a label, as in "eth0:1".
    const std::string_view label = entry->ifa_name;
    const std::string name(label.substr(0, label.find(':')));
    const std::uint32_t number = ::if_nametoindex(name.c_str());
    auto interface = std::ranges::find(interfaces, number, &OwnInterface::number);
    if (interface == interfaces.end()) {
      interfaces.push_back({.number = number, .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0});
      interface = interfaces.end() - 1;
    }
    take(*entry->ifa_addr, *interface);
  }
  return interfaces;
}

BoundTo bound_to(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    if (ipv4.sin_addr.s_addr == htonl(INADDR_ANY)) return {.host = "", .ipv6 = false};
  } else {
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
    if (IN6_IS_ADDR_UNSPECIFIED(&ipv6.sin6_addr) != 0) return {};
  }
  std::array<char, NI_MAXHOST> host{};
  const socklen_t size = address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  ::getnameinfo(&address, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return {.host = host.data()};
}

std::vector<std::string> hosts_for_peers(std::span<const OwnInterface> interfaces, bool ipv6,
                                         bool of_nics_alone) {
  struct Candidate {
    IpBytes address;
    bool loopback;
    std::tuple<bool, int, std::size_t> rank;  // the smallest comes first
  };

  constexpr std::size_t kNoNic = std::numeric_limits<std::size_t>::max();
  std::vector<Candidate> found;
  for (const OwnInterface& each : interfaces) {
    for (const IpBytes& address : each.addresses) {
      const bool loopback = each.loopback || is_loopback(address);
      if (is_link_local(address) || (!ipv6 && !is_ipv4(address))) continue;
      if (of_nics_alone && !each.nic && !loopback) continue;
      const int kind = is_ipv4(address) ? 0 : is_unique_local(address) ? 2 : 1;
      found.push_back({address, loopback, {!each.nic, kind, each.nic.value_or(kNoNic)}});
    }
  }
  if (!std::ranges::all_of(found, &Candidate::loopback)) std::erase_if(found, &Candidate::loopback);
  std::ranges::stable_sort(found, {}, &Candidate::rank);
  std::vector<std::string> hosts;
  for (const Candidate& each : found) {
    std::string text = text_of(each.address);
    if (std::ranges::find(hosts, text) == hosts.end()) hosts.push_back(std::move(text));
  }
  return hosts;
}

}  // namespace hbmwire::wire
