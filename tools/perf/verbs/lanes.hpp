// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tools/perf/engine.hpp"
#include "tools/perf/verbs/objects.hpp"

namespace hbmwire::tools::perf {

/// The parameters with which one queue pair reaches its counterpart.
struct Route {
  ibv_ah_attr path{};
  ibv_mtu mtu = IBV_MTU_1024;
  std::uint32_t remote_queue = 0;
  std::uint32_t send_sequence = 0;
  std::uint32_t receive_sequence = 0;
  std::uint8_t reads_out = 1;  ///< reads and atomics in flight that this side requests
  std::uint8_t reads_in = 1;   ///< reads and atomics in flight that this side answers
};

/// A queue pair, and the progress of its traffic.
struct Lane {
  QpHandle qp;
  Route route;
  std::uint32_t number = 0;  ///< index among the lanes
  AhHandle path;             ///< to the receiver of datagrams
  std::uint32_t remote_queue = 0;
  std::uint32_t queue_key = 0;
  std::uint32_t packet_sequence = 0;

  // --- sending: a list of requests that one call posts, over and over ---
  std::vector<ibv_send_wr> requests;
  std::vector<ibv_sge> elements;
  std::uint64_t local_base = 0;  ///< a slot's offset is added to these two addresses
  std::uint64_t remote_base = 0;
  std::size_t next_slot = 0;
  std::uint64_t posted = 0;
  std::uint64_t completed = 0;
  std::uint64_t limit = 0;     ///< the most messages to post in this pass
  std::uint64_t credited = 0;  ///< messages that the peer has received and posted new receives for
  std::uint64_t credit_base = 0;   ///< `posted` at the start of the pass
  std::uint32_t until_signal = 1;  ///< messages to post until one gets a completion

  // --- receiving ---
  std::vector<ibv_recv_wr> receives;
  std::vector<ibv_sge> receive_elements;
  std::uint64_t receive_base = 0;
  std::size_t next_receive_slot = 0;
  std::uint64_t receives_posted = 0;  ///< in total, including those for credits
  std::uint64_t receives_taken = 0;
  std::uint64_t arrived = 0;   ///< messages that arrived in this pass
  std::uint64_t returned = 0;  ///< arrivals that were credited to the sender
  std::uint64_t credits_posted = 0;
  std::uint64_t credits_done = 0;
  bool owes_credit = false;  ///< a credit is due, and the send queue has no room for it
};

/// The queue pairs of one side, all of one kind, with one pair of completion queues.
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

/// Entries of a send queue beside those of the test, for credits.
inline constexpr std::uint32_t kCreditRoom = 32;
/// The low bits of a wr_id are the number of the lane, the others the number of messages posted by
/// then. The highest bit marks a credit.
inline constexpr unsigned kLaneBits = 12;
inline constexpr std::uint64_t kLaneMask = (std::uint64_t{1} << kLaneBits) - 1;
inline constexpr std::uint64_t kCreditBit = std::uint64_t{1} << 63;
static_assert(wire::kMaxPerfQueuePairs <= kLaneMask + 1);
static_assert(wire::kMaxPerfIterations < (std::uint64_t{1} << (63 - kLaneBits)));

/// The most reads and atomics in flight that a queue pair of this device can answer and request.
struct ReadDepths {
  std::uint32_t in = 1;
  std::uint32_t out = 1;
};

[[nodiscard]] ReadDepths reads_of(const Nic& nic);

/// Creates queue pairs in INIT. Errors: the device does not support something that the test needs.
Outcome<Lanes> create_lanes(const Work& work);

/// The description of the lanes for the peer.
Outcome<wire::PerfQueues> describe_lanes(const Work& work, const Lanes& lanes);

/// Resets the queue pairs and connects them again, so that no posted request is left. Both sides
/// must call it at the same time, with no transfer in flight.
Outcome<void> renew_lanes(const Work& work, Lanes& lanes);

/// Takes each queue pair from INIT to RTS, connected to its counterpart. With rdma_cm, which does
/// that itself, only checks that the two sides fit.
Outcome<void> connect_lanes(const Work& work, Lanes& lanes, const wire::PerfQueues& peer);

}  // namespace hbmwire::tools::perf
