// SPDX-License-Identifier: MIT
#include "emulation/nic/state/ports.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "emulation/nic/state/allocation.hpp"
#include "emulation/nic/state/links.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

namespace {

/// Describes the port in its shared record. Header::allocation is held.
void describe(const Process& process, const Nic& nic, unsigned number, PortRecord& port) {
  if (port.behaviour != nic.behaviour) port.behaviour = nic.behaviour;
  if (nic.behaviour.takes_time()) {
    process.shared().header.takes_time.store(1);
    process.shared().header.conditions.fetch_add(1);
  }
  const World& world = process.world();
  const std::string path = (world.sysfs() / "class/infiniband" / nic.name / "ports")
                               .lexically_relative(world.fabric)
                               .string() +
                           "/" + std::to_string(number);
  if (path == port.directory || path.size() >= sizeof port.directory) return;
  const Hold guard(port.publishing);
  if (!guard.held()) return;  // the next process that opens the NIC does it
  path.copy(port.directory, path.size());
  port.directory[path.size()] = '\0';
}

/// If the process ends without destroying its objects, requests in flight still arrive and the
/// counters are still written.
[[gnu::destructor]] void finish_at_exit() {
  Process* process = Process::current();
  if (process == nullptr) return;
  process->end_parked();
  process->write_port_files();
}

}  // namespace

bool collect_traffic(SharedState& shared, QpRecord& qp) {
  Traffic& traffic = qp.traffic;
  if (traffic.noted == Traffic::nothing) return false;
  const auto add = [](PortRecord& port, PortCounter counter, std::uint64_t amount) {
    port.counters[static_cast<std::size_t>(counter)].fetch_add(amount);
  };
  PortRecord& here = shared.ports[qp.port];
  PortRecord& there = shared.ports[traffic.peer_port];
  add(here, PortCounter::xmit_bytes, traffic.xmit_bytes);
  add(here, PortCounter::xmit_packets, traffic.xmit_packets);
  add(here, PortCounter::rcv_bytes, traffic.rcv_bytes);
  add(here, PortCounter::rcv_packets, traffic.rcv_packets);
  add(there, PortCounter::rcv_bytes, traffic.xmit_bytes);
  add(there, PortCounter::rcv_packets, traffic.xmit_packets);
  add(there, PortCounter::xmit_bytes, traffic.rcv_bytes);
  add(there, PortCounter::xmit_packets, traffic.rcv_packets);
  add(there, PortCounter::rx_write_requests, traffic.writes);
  add(there, PortCounter::rx_read_requests, traffic.reads);
  add(there, PortCounter::rx_atomic_requests, traffic.atomics);
  const std::uint32_t peer_port = traffic.peer_port;
  traffic = {};
  traffic.peer_port = peer_port;
  return true;
}

void drain_traffic(Process& process, QpRecord& qp) {
  if (!collect_traffic(process.shared(), qp)) return;
  note_port(process, qp.port);
  note_port(process, qp.traffic.peer_port);
}

void take_link_down(Process& process, std::uint32_t port, std::uint64_t for_ns) {
  forget_rises(process.shared(), port);
  change_link(process.links(), port, false);
  if (for_ns == 0) return;
  raise_link_at(process.shared(), port, now_ns() + for_ns);
  process.wake_helper();
}

std::uint32_t claim_context(Process& process, const Nic& nic, std::span<const std::uint32_t> ports,
                            std::uint64_t channel) {
  SharedState& shared = process.shared();
  const Allocation guard(process);
  if (!guard.held()) {
    errno = EBUSY;
    return 0;
  }
  for (std::uint32_t index = 1; index < kMaxContexts; ++index) {
    ContextRecord& context = shared.contexts[index];
    if (context.claimed.load() != 0) continue;
    const Hold record(context.mutex);
    if (!record.held()) continue;
    context.owner = process.slot();
    context.channel = channel;
    for (std::uint32_t i = 0; i < kMaxNicPorts; ++i) {
      context.ports[i] = i < ports.size() ? ports[i] : 0;
      context.told[i] = shared.ports[context.ports[i]].link_changes.load();
    }
    for (unsigned i = 0; i < ports.size(); ++i) {
      if (ports[i] != 0) describe(process, nic, i + 1, shared.ports[ports[i]]);
    }
    context.claimed.store(1);
    shared.header.next_context = std::max(shared.header.next_context, index + 1);
    return index;
  }
  errno = ENOMEM;
  return 0;
}

void release_context(Process& process, std::uint32_t index) {
  process.shared().contexts[index].claimed.store(0);  // the next owner resets `told` and the rest
}

void retry_link_events(Process& process, std::uint32_t index) {
  ContextRecord& context = process.shared().contexts[index];
  const Hold guard(context.mutex);
  if (guard.held()) tell_of_links(process.shared(), process.fifos(), context);
}

}  // namespace hbmwire::emulation::nic
