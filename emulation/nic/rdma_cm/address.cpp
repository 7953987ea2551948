// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/address.hpp"

#include <arpa/inet.h>
#include <endian.h>

#include <algorithm>

namespace hbmwire::emulation::nic {
namespace {

constexpr std::uint32_t kLoopbackMask = 0xffff0000;
constexpr std::uint32_t kLoopbackNet = 0x7f000000;

}  // namespace

std::uint16_t family_of(const CmAddress& address) {
  return address_as<sockaddr>(address).sa_family;
}

void set_family(CmAddress& address, std::uint16_t family) {
  std::memcpy(address.bytes.data(), &family, sizeof family);
}

std::size_t size_of(const CmAddress& address) {
  switch (family_of(address)) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    case kAfIb:
      return sizeof(IbAddress);
    default:
      return 0;
  }
}

CmAddress make_address(const void* from, std::size_t size) {
  CmAddress address{};
  std::memcpy(address.bytes.data(), from, std::min(size, address.bytes.size()));
  return address;
}

std::uint16_t port_of(const CmAddress& address) {
  switch (family_of(address)) {
    case AF_INET:
      return ntohs(address_as<sockaddr_in>(address).sin_port);
    case AF_INET6:
      return ntohs(address_as<sockaddr_in6>(address).sin6_port);
    case kAfIb: {
      const auto form = address_as<IbAddress>(address);
      return static_cast<std::uint16_t>(be64toh(form.service_id) & be64toh(form.service_id_mask));
    }
    default:
      return 0;
  }
}

void set_port(CmAddress& address, std::uint16_t port) {
  if (family_of(address) == AF_INET) {
    auto form = address_as<sockaddr_in>(address);
    form.sin_port = htons(port);
    set_address(address, form);
  } else if (family_of(address) == AF_INET6) {
    auto form = address_as<sockaddr_in6>(address);
    form.sin6_port = htons(port);
    set_address(address, form);
  } else {
    auto form = address_as<IbAddress>(address);
    const std::uint64_t space = be64toh(form.service_id) & be64toh(form.service_id_mask);
    form.service_id = htobe64((space & ~0xffffULL) | port);
    form.service_id_mask = ~0ULL;
    set_address(address, form);
  }
}

bool is_zero(const CmAddress& address) {
  switch (family_of(address)) {
    case AF_INET:  // 0/8, "this network"
      return (ntohl(address_as<sockaddr_in>(address).sin_addr.s_addr) >> 24U) == 0;
    case AF_INET6: {
      const auto form = address_as<sockaddr_in6>(address);
      return IN6_IS_ADDR_UNSPECIFIED(&form.sin6_addr);
    }
    case kAfIb:
      return address_as<IbAddress>(address).gid == Gid{};
    default:
      return false;
  }
}

bool is_loopback(const CmAddress& address) {
  switch (family_of(address)) {
    case AF_INET:
      return (ntohl(address_as<sockaddr_in>(address).sin_addr.s_addr) & kLoopbackMask) ==
             kLoopbackNet;
    case AF_INET6: {
      const auto form = address_as<sockaddr_in6>(address);
      return IN6_IS_ADDR_LOOPBACK(&form.sin6_addr);
    }
    case kAfIb:
      return address_as<IbAddress>(address).gid ==
             Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    default:
      return false;
  }
}

bool is_multicast(const CmAddress& address) {
  if (family_of(address) == AF_INET) {
    return IN_MULTICAST(ntohl(address_as<sockaddr_in>(address).sin_addr.s_addr));
  }
  return family_of(address) == AF_INET6 && gid_of(address)[0] == 0xff;
}

bool same_address(const CmAddress& left, const CmAddress& right) {
  return family_of(left) == family_of(right) && gid_of(left) == gid_of(right);
}

void set_loopback(CmAddress& address) {
  if (family_of(address) == AF_INET) {
    auto form = address_as<sockaddr_in>(address);
    form.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    set_address(address, form);
  } else if (family_of(address) == AF_INET6) {
    auto form = address_as<sockaddr_in6>(address);
    form.sin6_addr = in6addr_loopback;
    set_address(address, form);
  }
}

Gid gid_of(const CmAddress& address) {
  Gid gid{};
  if (family_of(address) == AF_INET) {
    const auto form = address_as<sockaddr_in>(address);
    gid[10] = gid[11] = 0xff;
    std::memcpy(&gid[12], &form.sin_addr, 4);
  } else if (family_of(address) == AF_INET6) {
    const auto form = address_as<sockaddr_in6>(address);
    std::memcpy(gid.data(), &form.sin6_addr, gid.size());
  } else if (family_of(address) == kAfIb) {
    gid = address_as<IbAddress>(address).gid;
  }
  return gid;
}

CmAddress address_from_gid(const Gid& gid, const CmAddress& like) {
  CmAddress address = like;
  if (family_of(like) == AF_INET) {
    auto form = address_as<sockaddr_in>(like);
    std::memcpy(&form.sin_addr, &gid[12], 4);
    set_address(address, form);
  } else if (family_of(like) == AF_INET6) {
    auto form = address_as<sockaddr_in6>(like);
    std::memcpy(&form.sin6_addr, gid.data(), gid.size());
    set_address(address, form);
  }
  return address;
}

std::uint64_t service_id(std::uint32_t port_space, const CmAddress& address) {
  if (family_of(address) == kAfIb) return address_as<IbAddress>(address).service_id;
  return htobe64((std::uint64_t{port_space} << 16U) + port_of(address));
}

}  // namespace hbmwire::emulation::nic
