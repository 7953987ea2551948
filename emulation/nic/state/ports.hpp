// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

/// Whether a port's link is up. `port` is its number in the fabric, as in QpRecord::port.
inline bool link_is_up(const SharedState& shared, std::uint32_t port) {
  return shared.ports[port].link_changes.load(std::memory_order_acquire) % 2 == 0;
}

/// Notes that the counter files of a port must be rewritten.
inline void note_port(Process& process, std::uint32_t port) {
  if (process.port_files().note(port)) process.wake_helper();
}

/// Takes the link of a port down; if `for_ns` is not 0, the link comes up again after that time.
/// The caller holds no lock that processes share.
void take_link_down(Process& process, std::uint32_t port, std::uint64_t for_ns);

/// Adds to a counter of a port, given by its number in the fabric. Any lock may be held.
inline void count(Process& process, std::uint32_t port, PortCounter counter,
                  std::uint64_t amount = 1) {
  process.shared().ports[port].counters[static_cast<std::size_t>(counter)].fetch_add(amount);
  note_port(process, port);
}

/// The ports of two ends, by their numbers in the fabric; 0: not known.
struct Route {
  std::uint32_t from;
  std::uint32_t to;
};

/// Counts packets from one port to another with `bytes` of payload in total.
inline void count_traffic(Process& process, Route route, std::uint64_t bytes,
                          std::uint64_t packets) {
  count(process, route.from, PortCounter::xmit_bytes, bytes);
  count(process, route.from, PortCounter::xmit_packets, packets);
  count(process, route.to, PortCounter::rcv_bytes, bytes);
  count(process, route.to, PortCounter::rcv_packets, packets);
}

/// Counts a packet to a multicast group where it is sent. Each member's port counts it as well.
inline void count_multicast_sent(Process& process, std::uint32_t port, std::uint64_t bytes) {
  if (!link_is_up(process.shared(), port)) return count(process, port, PortCounter::xmit_discards);
  count(process, port, PortCounter::xmit_bytes, bytes);
  count(process, port, PortCounter::xmit_packets);
  count(process, port, PortCounter::xmit_multicast_packets);
}

inline void count_multicast_received(Process& process, std::uint32_t port, std::uint64_t bytes) {
  if (port == 0) return;
  count(process, port, PortCounter::rcv_bytes, bytes);
  count(process, port, PortCounter::rcv_packets);
  count(process, port, PortCounter::rcv_multicast_packets);
}

/// Adds a queue pair's uncounted traffic to the counters of the ports. Returns whether there was
/// any. The sender's mutex is held, or its process is dead.
bool collect_traffic(SharedState& shared, QpRecord& qp);

/// As collect_traffic(), and notes the ports, so that their counter files are rewritten.
void drain_traffic(Process& process, QpRecord& qp);

/// The properties that all ports of a NIC share.
struct Nic {
  std::string name;  // emuN
  Behaviour behaviour;
};

/// Enters an open device, so that it is told of link changes of `ports` (numbers in the fabric),
/// and so that these ports keep their counters in the NIC's sysfs files. Returns its index, from 1;
/// 0 with errno.
std::uint32_t claim_context(Process& process, const Nic& nic, std::span<const std::uint32_t> ports,
                            std::uint64_t channel);
void release_context(Process& process, std::uint32_t index);

/// Writes pending link events, now that the context's FIFO has room again.
void retry_link_events(Process& process, std::uint32_t index);

}  // namespace hbmwire::emulation::nic
