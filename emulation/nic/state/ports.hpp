// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

/// Whether a port's link is up; the port's number is the one in the fabric, as in QpRecord::port.
inline bool link_is_up(const SharedState& shared, std::uint32_t port) {
  return shared.ports[port].link_changes.load(std::memory_order_acquire) % 2 == 0;
}

/// The files of a port are to be written.
inline void note_port(Process& process, std::uint32_t port) {
  if (process.port_files().note(port)) process.wake_helper();
}

/// The link of a port goes down; with `for_ns` != 0 it comes up again after that time. The caller
/// holds no lock that processes share.
void take_link_down(Process& process, std::uint32_t port, std::uint64_t for_ns);

/// Counts at a port; the number is the one in the fabric. Any lock may be held.
inline void count(Process& process, std::uint32_t port, PortCounter counter,
                  std::uint64_t amount = 1) {
  process.shared().ports[port].counters[static_cast<std::size_t>(counter)].fetch_add(amount);
  note_port(process, port);
}

struct Route {
  std::uint32_t from;
  std::uint32_t to;
};

/// Counts packets that went from one port to another with `bytes` of payload.
inline void count_traffic(Process& process, Route route, std::uint64_t bytes,
                          std::uint64_t packets) {
  count(process, route.from, PortCounter::xmit_bytes, bytes);
  count(process, route.from, PortCounter::xmit_packets, packets);
  count(process, route.to, PortCounter::rcv_bytes, bytes);
  count(process, route.to, PortCounter::rcv_packets, packets);
}

/// One packet to a multicast group: once where it is sent, and where each member receives it.
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

/// Adds what a queue pair's requests moved to the ports' counters, and tells the caller whether
/// that was anything. The sender's mutex is held, or its process is dead.
bool collect_traffic(SharedState& shared, QpRecord& qp);

/// The same, and has the files written.
void drain_traffic(Process& process, QpRecord& qp);

/// What the ports of a NIC have in common.
struct Nic {
  std::string name;  // emuN
  Behaviour behaviour;
};

/// Enters an open device, so that it is told what happens to the links of `ports` (numbers in the
/// fabric) of the NIC, and these keep their counters in its sysfs files. Its index, from 1; 0 with
/// errno.
std::uint32_t claim_context(Process& process, const Nic& nic, std::span<const std::uint32_t> ports,
                            std::uint64_t channel);
void release_context(Process& process, std::uint32_t index);

/// There is room in the context's FIFO again.
void retry_link_events(Process& process, std::uint32_t index);

}  // namespace hbmwire::emulation::nic
