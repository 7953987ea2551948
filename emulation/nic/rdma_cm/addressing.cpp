// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/addressing.hpp"

#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "emulation/nic/rdma_cm/event_queue.hpp"
#include "emulation/nic/rdma_cm/port_space.hpp"

namespace hbmwire::emulation::nic {
namespace {

constexpr std::uint32_t kMostBacklog = 1024;  // as sysctl net.rdma_ucm.max_backlog

/// Asks the kernel's routing by a datagram socket, without sending a packet.
class RouteProbe {
 public:
  explicit RouteProbe(std::uint16_t family) : fd_(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}

  RouteProbe(const RouteProbe&) = delete;
  RouteProbe& operator=(const RouteProbe&) = delete;
  RouteProbe(RouteProbe&&) = delete;
  RouteProbe& operator=(RouteProbe&&) = delete;

  ~RouteProbe() {
    if (fd_ >= 0) ::close(fd_);
  }

  /// Whether the machine has this address.
  bool is_local(CmAddress address) const {
    set_port(address, 0);
    return ::bind(fd_, raw(address), static_cast<socklen_t>(size_of(address))) == 0;
  }

  /// Sets `source` to the address that the machine would send from. Returns 0 or an errno.
  int find_source(CmAddress destination, CmAddress& source) const {
    set_port(destination, 1);  // any port: no packet is sent
    if (::connect(fd_, raw(destination), static_cast<socklen_t>(size_of(destination))) != 0) {
      return errno;
    }
    auto size = static_cast<socklen_t>(source.bytes.size());
    auto* const to = reinterpret_cast<sockaddr*>(source.bytes.data());
    return ::getsockname(fd_, to, &size) == 0 ? 0 : errno;
  }

 private:
  static const sockaddr* raw(const CmAddress& address) {
    return reinterpret_cast<const sockaddr*>(address.bytes.data());
  }

  int fd_;
};

bool ipv6_only_by_default() {
  std::ifstream file("/proc/sys/net/ipv6/bindv6only");
  int value = 0;
  return file >> value && value != 0;
}

bool is_emulations_own(const Gid& gid) {
  return (is_ipv4_mapped(gid) && gid[12] == 127) || is_link_local(gid);
}

/// Finds the NIC port that has the address. Otherwise returns EADDRNOTAVAIL if the machine does not
/// have it, or ENODEV if the machine has it, but not on one of our NICs.
int find_port(Cm& cm, const CmAddress& address, CmPort& port) {
  if (family_of(address) == kAfIb) return ENODEV;  // RoCE has no such addresses
  const Gid gid = gid_of(address);
  if (const auto found = cm.ports.port_with(cm.node, gid)) {
    port = *found;
    return 0;
  }
  const bool anothers = is_emulations_own(gid) && cm.ports.exists(gid);
  return !anothers && RouteProbe(family_of(address)).is_local(address) ? ENODEV : EADDRNOTAVAIL;
}

void report(Cm& cm, CmId& id, CmEventType type, int error) {
  queue_event(cm.process, id, make_event(cm.tables(), id, type, -error));
}

void address_resolved(Cm& cm, CmId& id, const CmPort& port, const Gid& remote) {
  id.port = port;
  id.remote_gid = remote;
  id.state = CmaState::address_resolved;
  report(cm, id, CmEventType::address_resolved, 0);
}

void address_failed(Cm& cm, CmId& id, int error) {
  id.state = CmaState::address_bound;
  report(cm, id, CmEventType::address_error, error);
}

/// Sets the source address to the one for the route, but keeps its port.
void choose_source(CmId& id, const CmAddress& source) {
  const std::uint16_t port = port_of(id.source);
  id.source = source;
  set_port(id.source, port);
}

int resolve_loopback(Cm& cm, CmId& id) {
  CmPort port = id.port;
  if (port.guid == 0) {
    const auto found = cm.ports.loopback_port(cm.node, family_of(id.destination));
    if (!found) return ENODEV;
    port = *found;
    set_loopback(id.source);
  }
  address_resolved(cm, id, port, port.gid);
  return 0;
}

/// Finds the address from which the destination is reached: the destination itself if it is ours;
/// for another node's address the one of our NIC towards it; otherwise the one that the machine's
/// routing chooses.
int route_to(Cm& cm, const CmId& id, CmAddress& source) {
  const CmAddress& to = id.destination;
  const Gid gid = gid_of(to);
  source = to;
  if (cm.ports.port_with(cm.node, gid)) return 0;
  if (is_emulations_own(gid)) {
    const auto towards = cm.ports.port_towards(gid);
    if (!towards) return ENODEV;
    source = address_from_gid(towards->gid, to);
    return 0;
  }
  return RouteProbe(family_of(to)).find_source(to, source);
}

/// Finds the NIC port for a group: the one that the machine's routing names, or else the first,
/// because an emulated machine need not have a route for groups.
int find_group_port(Cm& cm, CmId& id, CmPort& port) {
  CmAddress source{};
  const RouteProbe probe(family_of(id.destination));
  if (probe.find_source(id.destination, source) == 0) {
    if (const auto found = cm.ports.port_with(cm.node, gid_of(source))) {
      port = *found;
      choose_source(id, source);
      return 0;
    }
  }
  const auto first = cm.ports.loopback_port(cm.node, family_of(id.destination));
  if (!first) return ENODEV;
  port = *first;
  choose_source(id, address_from_gid(first->gid, id.source));
  return 0;
}

void resolve_group(Cm& cm, CmId& id) {
  CmPort port = id.port;
  const int error = port.guid == 0 ? find_group_port(cm, id, port) : 0;
  if (error != 0) {
    address_failed(cm, id, error);
  } else {
    address_resolved(cm, id, port, gid_of(id.destination));
  }
}

/// Resolves an address that is not loopback. If no node of the fabric has the address, waits for it
/// until the time is over, as for a neighbour that does not answer.
void resolve_remote(Cm& cm, CmId& id, std::uint32_t timeout_ms) {
  CmPort port = id.port;
  if (port.guid == 0) {
    CmAddress source{};
    if (const int error = route_to(cm, id, source); error != 0) {
      address_failed(cm, id, error);
      return;
    }
    const auto found = cm.ports.port_with(cm.node, gid_of(source));
    if (!found) {
      address_failed(cm, id, ENODEV);
      return;
    }
    port = *found;
    choose_source(id, source);
  }
  const Gid remote = gid_of(id.destination);
  if (cm.ports.exists(remote)) {
    address_resolved(cm, id, port, remote);
    return;
  }
  id.state = CmaState::address_query;
  id.deadline_ns = now_ns() + std::uint64_t{timeout_ms} * 1'000'000;
  cm.timer.watch();
}

}  // namespace

int bind_address(Cm& cm, CmId& id, const CmAddress& address) {
  if (size_of(address) == 0) return EAFNOSUPPORT;
  if (id.state != CmaState::idle) return EINVAL;
  if (family_of(address) == AF_INET6 && is_link_local(gid_of(address)) &&
      address_as<sockaddr_in6>(address).sin6_scope_id == 0) {
    return EINVAL;
  }
  CmPort port{};
  if (!is_any(address)) {
    if (const int error = find_port(cm, address, port); error != 0) return error;
    if (id.port_space == RDMA_PS_IPOIB) return EINVAL;  // needs an InfiniBand link
  }
  if (id.family_only_set == 0) {
    id.family_only =
        family_of(address) == AF_INET || (family_of(address) == AF_INET6 && ipv6_only_by_default())
            ? 1
            : 0;
  }
  const CmAddress before = id.source;
  id.source = address;
  if (const int error = take_port(cm.tables(), id); error != 0) {
    id.source = before;
    return error;
  }
  id.port = port;
  if (size_of(id.destination) == 0) set_family(id.destination, family_of(address));
  id.state = CmaState::address_bound;
  return 0;
}

int resolve_address(Cm& cm, CmId& id, const CmAddress* source, const CmAddress& destination,
                    std::uint32_t timeout_ms) {
  const CmAddress before = id.destination;
  const auto refuse = [&](int error) {
    id.destination = before;
    return error;
  };
  if (id.state == CmaState::idle) {
    CmAddress wildcard{};
    set_family(wildcard, family_of(destination));
    id.destination = destination;  // the choice of a port depends on it
    if (const int error = bind_address(cm, id, source != nullptr ? *source : wildcard);
        error != 0) {
      return refuse(error);
    }
  }
  if (id.state != CmaState::address_bound || family_of(id.source) != family_of(destination)) {
    return refuse(EINVAL);
  }
  id.destination = destination;
  if (is_any(destination)) {
    const int error = resolve_loopback(cm, id);
    return error == 0 ? 0 : refuse(error);
  }
  if (family_of(destination) == kAfIb) return refuse(ENODEV);
  if (is_multicast(destination)) {
    resolve_group(cm, id);
    return 0;
  }
  resolve_remote(cm, id, timeout_ms);
  return 0;
}

void retry_resolution(Cm& cm, CmId& id) {
  if (id.state == CmaState::address_query && cm.ports.exists(gid_of(id.destination))) {
    id.deadline_ns = 0;
    resolve_remote(cm, id, 0);  // no time to wait: the address exists now
  }
}

int resolve_route(Cm& cm, CmId& id) {
  if (id.state != CmaState::address_resolved) return EINVAL;
  id.state = CmaState::route_resolved;
  report(cm, id, CmEventType::route_resolved, 0);
  return 0;
}

int listen(Cm& cm, CmId& id, std::uint32_t backlog) {
  if (id.state == CmaState::idle) {
    CmAddress wildcard{};
    set_family(wildcard, AF_INET);
    if (const int error = bind_address(cm, id, wildcard); error != 0) return error;
  }
  if (id.state != CmaState::address_bound) return EINVAL;
  if (id.reuse_address != 0) {
    if (const int error = check_listen(cm.tables(), id); error != 0) return error;
  }
  id.backlog = backlog > 0 && backlog < kMostBacklog ? backlog : kMostBacklog;
  id.state = CmaState::listen;
  set_listening(cm.tables(), index_of(cm.tables(), id), true);
  return 0;
}

}  // namespace hbmwire::emulation::nic
