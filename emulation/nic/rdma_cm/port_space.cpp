// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/port_space.hpp"

#include <endian.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {
namespace {

constexpr std::uint16_t kFirstFreePort = 1024;  // lower ports need a privilege

/// RDMA_IB_IP_PS_*: the bits of a service id that name a port space.
constexpr std::uint64_t kServicePortSpaceMask = 0xffff'ffff'ffff'0000;

bool may_bind_low_ports() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  return (data[0].effective & (1U << CAP_NET_BIND_SERVICE)) != 0;
}

struct PortRange {
  std::uint32_t first = 32768;
  std::uint32_t last = 60999;
};

PortRange ephemeral_ports() {
  PortRange range;
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  file >> range.first >> range.last;
  return range.first <= range.last ? range : PortRange{};
}

/// The port space of an id's ports: its own, or with AF_IB the one that its service id names; 0:
/// none.
std::uint32_t port_space_of(const CmId& id) {
  if (family_of(id.source) != kAfIb) return id.port_space;
  const auto form = address_as<IbAddress>(id.source);
  const std::uint64_t mask = be64toh(form.service_id_mask) & kServicePortSpaceMask;
  const std::uint64_t wanted = be64toh(form.service_id) & mask;
  for (const std::uint32_t space : {RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP}) {
    if (id.port_space != RDMA_PS_IB && id.port_space != space) continue;
    if (wanted == ((std::uint64_t{space} << 16U) & mask)) return space;
  }
  return 0;
}

/// Whether another id may hold this port. Usually none does, and the ids need not be searched.
bool is_held(const CmTables& tables, const CmKey& own, std::uint16_t port) {
  return tables.holders[port] > (own.bound_port == port ? 1U : 0U);
}

/// Calls `conflict` for every other id that holds this port. Returns the first error.
template <typename Conflict>
int first_conflict(const CmTables& tables, const CmId& id, std::uint32_t space, std::uint16_t port,
                   Conflict conflict) {
  const std::uint32_t own = index_of(tables, id);
  if (!is_held(tables, tables.keys[own], port)) return 0;
  const std::uint64_t node = tables.keys[own].node;
  for (const CmKey& key : in_use(tables.keys, tables.id_use)) {
    const std::uint32_t i = index_in(tables.keys, key);
    if (i == own || key.claimed == 0 || key.bound_port != port || key.node != node ||
        key.port_space != space) {
      continue;
    }
    if (const int error = conflict(tables.ids[i], key); error != 0) return error;
  }
  return 0;
}

/// Whether the id may have a port that it asks for by number. Returns 0 or the errno of a conflict.
int check_port(const CmTables& tables, const CmId& id, std::uint32_t space, std::uint16_t port,
               bool may_share) {
  return first_conflict(tables, id, space, port, [&](const CmId& other, const CmKey& key) {
    // Both share the port by RDMA_OPTION_ID_REUSEADDR.
    if (key.listening == 0 && may_share && other.reuse_address != 0) return 0;
    // Each serves only its own family.
    if (id.family_only != 0 && other.family_only != 0 &&
        family_of(id.source) != family_of(other.source)) {
      return 0;
    }
    if (is_any(id.source) || is_any(other.source)) return EADDRNOTAVAIL;
    return same_address(id.source, other.source) ? EADDRINUSE : 0;
  });
}

/// Two ids may have the same ephemeral port if their connections cannot be confused: if they differ
/// in the peers' ports, in their own addresses or in the peers' addresses.
int check_ephemeral(const CmTables& tables, const CmId& id, std::uint32_t space,
                    std::uint16_t port) {
  return first_conflict(tables, id, space, port, [&](const CmId& other, const CmKey&) {
    const std::uint16_t peer_port = port_of(other.destination);
    if (peer_port != 0 && peer_port != port_of(id.destination)) return 0;
    if (!is_any(id.source) && !is_any(other.source) && !same_address(id.source, other.source)) {
      return 0;
    }
    if (!is_any(other.destination) && !same_address(id.destination, other.destination)) return 0;
    return EADDRNOTAVAIL;
  });
}

/// Gives the id the port, instead of the one that it has.
void hold(CmTables& tables, CmId& id, std::uint32_t space, std::uint16_t port) {
  set_port(id.source, port);
  CmKey& key = tables.keys[index_of(tables, id)];
  if (key.bound_port != 0) --tables.holders[key.bound_port];
  ++tables.holders[port];
  key.port_space = space;
  key.bound_port = port;
}

int take_any_port(CmTables& tables, CmId& id, std::uint32_t space) {
  const PortRange range = ephemeral_ports();
  const std::uint32_t count = range.last - range.first + 1;
  // The walk begins at a different port each time.
  const auto start = static_cast<std::uint32_t>(now_ns() / 1000 % count);
  // Tries free ports first, because they need no walk over the ids that hold the port.
  for (const bool shared : {false, true}) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto port = static_cast<std::uint16_t>(range.first + (start + i) % count);
      // A port that was given back just now may have a peer that still uses it.
      if (port == tables.last_port || (tables.holders[port] != 0) != shared) continue;
      if (check_ephemeral(tables, id, space, port) != 0) continue;
      hold(tables, id, space, port);
      tables.last_port = port;
      return 0;
    }
  }
  return EADDRNOTAVAIL;
}

}  // namespace

int take_port(CmTables& tables, CmId& id) {
  const std::uint32_t space = port_space_of(id);
  if (space == 0) return EPROTONOSUPPORT;
  const std::uint16_t port = port_of(id.source);
  if (port == 0) return take_any_port(tables, id, space);
  if (port < kFirstFreePort && !may_bind_low_ports()) return EACCES;
  if (const int error = check_port(tables, id, space, port, id.reuse_address != 0); error != 0) {
    return error;
  }
  hold(tables, id, space, port);
  return 0;
}

int check_listen(const CmTables& tables, const CmId& id) {
  const CmKey& key = tables.keys[index_of(tables, id)];
  return check_port(tables, id, key.port_space, key.bound_port, false);
}

}  // namespace hbmwire::emulation::nic
