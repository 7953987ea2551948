// SPDX-License-Identifier: MIT
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "emulation/nic/rdma_cm/tables.hpp"
#include "emulation/nic/state/gid.hpp"

namespace hbmwire::emulation::nic {

/// struct sockaddr_ib of the kernel's rdma/ib.h: an InfiniBand GID and a service id as an address.
struct IbAddress {
  std::uint16_t family;
  std::uint16_t pkey;
  std::uint32_t flow_info;
  Gid gid;
  std::uint64_t service_id;  // in network order, as is the mask
  std::uint64_t service_id_mask;
  std::uint64_t scope_id;
};

static_assert(sizeof(IbAddress) == 48);

inline constexpr std::uint16_t kAfIb = 27;

/// Reads an address as the structure of its family.
template <typename Form>
Form address_as(const CmAddress& address) {
  static_assert(sizeof(Form) <= sizeof address.bytes);
  Form form;
  std::memcpy(&form, address.bytes.data(), sizeof form);
  return form;
}

template <typename Form>
void set_address(CmAddress& address, const Form& form) {
  static_assert(sizeof(Form) <= sizeof address.bytes);
  std::memcpy(address.bytes.data(), &form, sizeof form);
}

std::uint16_t family_of(const CmAddress& address);
void set_family(CmAddress& address, std::uint16_t family);

/// Bytes of an address of its family; 0 for a family that rdma_cm does not know.
std::size_t size_of(const CmAddress& address);

/// Makes an address from `size` bytes of the application; the rest is zero.
CmAddress make_address(const void* from, std::size_t size);

std::uint16_t port_of(const CmAddress& address);  // in host order
void set_port(CmAddress& address, std::uint16_t port);

bool is_zero(const CmAddress& address);

/// Whether it is a loopback address. Of 127/8 only 127.0/16 counts, because emulated NICs have
/// their addresses in the rest.
bool is_loopback(const CmAddress& address);

bool is_multicast(const CmAddress& address);

/// Whether it is zero or loopback, and so belongs to no NIC.
inline bool is_any(const CmAddress& address) { return is_zero(address) || is_loopback(address); }

/// Whether the addresses are equal; ports are not compared.
bool same_address(const CmAddress& left, const CmAddress& right);

void set_loopback(CmAddress& address);

/// The GID of an address in RoCE. An IPv4 address becomes an IPv4-mapped IPv6 address.
Gid gid_of(const CmAddress& address);

/// The address of a GID, in the family of `like`.
CmAddress address_from_gid(const Gid& gid, const CmAddress& like);

/// RDMA_IB_IP_PS_*: the service id of a port in a port space.
std::uint64_t service_id(std::uint32_t port_space, const CmAddress& address);

}  // namespace hbmwire::emulation::nic
