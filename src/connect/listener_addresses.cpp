// SPDX-License-Identifier: MIT
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <string>
#include <vector>

#include "hbmwire/host_port.hpp"

#include "base/guarded.hpp"
#include "connect/listener_state.hpp"
#include "wire/own_addresses.hpp"

namespace hbmwire {

namespace {

wire::BoundTo bound_to(const detail::ListenerState& listener) {
  if (listener.managed) return wire::bound_to(listener.managed->id.local_address());
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  ::getsockname(listener.listening.socket.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  return wire::bound_to(reinterpret_cast<const sockaddr&>(bound));
}

/// Fills in the worker's NIC that each interface belongs to.
void find_nics(const detail::WorkerState& worker, std::vector<wire::OwnInterface>& interfaces) {
  for (std::size_t i = 0; i < worker.nics.size(); ++i) {
    const auto nic = verbs::interfaces_of(state_of(worker.nics[i].nic));
    for (wire::OwnInterface& interface : interfaces) {
      if (!interface.nic && nic.has(interface.number, interface.hardware)) interface.nic = i;
    }
  }
}

}  // namespace

Result<std::vector<std::string>> Listener::addresses() const {
  return guarded(Stage::connect, [&]() -> Result<std::vector<std::string>> {
    HBMWIRE_TRY(state_->worker->check_process(Stage::connect));
    const wire::BoundTo bound = bound_to(*state_);
    std::vector<std::string> hosts{bound.host};
    if (bound.host.empty()) {
      HBMWIRE_TRY_ASSIGN(auto interfaces, wire::own_interfaces());
      find_nics(*state_->worker, interfaces);
      hosts = wire::hosts_for_peers(interfaces, bound.ipv6, state_->options.rdma_cm);
    }
    const std::string scheme(state_->options.rdma_cm ? detail::kCmScheme : "");
    for (std::string& host : hosts) host = scheme + join_host_port(host, port());
    return hosts;
  });
}

}  // namespace hbmwire
