// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tools/perf/engine.hpp"
#include "tools/perf/verbs/objects.hpp"

namespace hbmwire::tools::perf {

/// How one queue pair reaches its counterpart.
struct Route {
  ibv_ah_attr path{};
  ibv_mtu mtu = IBV_MTU_1024;
  std::uint32_t remote_queue = 0;
  std::uint32_t send_sequence = 0;
  std::uint32_t receive_sequence = 0;
  std::uint8_t reads_out = 1;  ///< reads and atomics asked for at a time, and
  std::uint8_t reads_in = 1;   ///< answered
};

/// A queue pair, and how far its traffic is.
struct Lane {
  QpHandle qp;
  Route route;
  std::uint32_t number = 0;  ///< among its like
  AhHandle path;             ///< to a datagram's receiver
  std::uint32_t remote_queue = 0;
  std::uint32_t queue_key = 0;
  std::uint32_t packet_sequence = 0;

  // --- sending: a list of requests that are posted by one call, again and again ---
  std::vector<ibv_send_wr> requests;
  std::vector<ibv_sge> elements;
  std::uint64_t local_base = 0;  ///< addresses to which a slot's offset is added
  std::uint64_t remote_base = 0;
  std::size_t next_slot = 0;
  std::uint64_t posted = 0;
  std::uint64_t completed = 0;
  std::uint64_t limit = 0;     ///< no more are posted in this pass
  std::uint64_t credited = 0;  ///< of these the peer has taken as many, and posted receives anew
  std::uint64_t credit_base = 0;
  std::uint32_t until_signal = 1;

  // --- receiving ---
  std::vector<ibv_recv_wr> receives;
  std::vector<ibv_sge> receive_elements;
  std::uint64_t receive_base = 0;
  std::size_t next_receive_slot = 0;
  std::uint64_t receives_posted = 0;  ///< in all, those for credits included
  std::uint64_t receives_taken = 0;
  std::uint64_t arrived = 0;   ///< messages of this pass
  std::uint64_t returned = 0;  ///< of these, as many the sender knows of
  std::uint64_t credits_posted = 0;
  std::uint64_t credits_done = 0;
  bool owes_credit = false;
};

/// The queue pairs of one side, all alike, on one pair of completion queues.
struct Lanes {
  ChannelHandle channel;  ///< only with events
  CqHandle send_cq;
  CqHandle receive_cq;
  std::vector<Lane> lanes;
  std::string nic;
  std::uint32_t inline_bytes = 0;
  std::uint32_t mtu_bytes = 0;
  ibv_mtu route_mtu = IBV_MTU_1024;
  std::uint8_t reads_out = 0;
  std::uint8_t reads_in = 0;
};

/// Requests in a send queue beside those of the test: credits.
inline constexpr std::uint32_t kCreditRoom = 32;
/// A wr_id's low bits say which lane; the others how many messages were posted by then. The highest
/// bit is a credit's.
inline constexpr unsigned kLaneBits = 12;
inline constexpr std::uint64_t kLaneMask = (std::uint64_t{1} << kLaneBits) - 1;
inline constexpr std::uint64_t kCreditBit = std::uint64_t{1} << 63;
static_assert(wire::kMaxPerfQueuePairs <= kLaneMask + 1);
static_assert(wire::kMaxPerfIterations < (std::uint64_t{1} << (63 - kLaneBits)));

/// Reads and atomics that a queue pair of a device answers at a time, and asks for.
struct ReadDepths {
  std::uint32_t in = 1;
  std::uint32_t out = 1;
};

[[nodiscard]] ReadDepths reads_of(const Nic& nic);

/// Queue pairs in INIT. What a device can't do is an error that says so.
Outcome<Lanes> create_lanes(const Work& work);

/// What the peer must know of them.
Outcome<wire::PerfQueues> describe_lanes(const Work& work, const Lanes& lanes);

/// As if new, and connected as before: nothing that was posted is left. Both sides at once, with
/// nothing under way.
Outcome<void> renew_lanes(const Work& work, Lanes& lanes);

/// INIT to RTS, each queue pair to its counterpart, unless rdma_cm does that: then only whether the
/// two sides fit.
Outcome<void> connect_lanes(const Work& work, Lanes& lanes, const wire::PerfQueues& peer);

}  // namespace hbmwire::tools::perf
