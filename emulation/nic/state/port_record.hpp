// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "emulation/nic/state/limits.hpp"
#include "emulation/nic/state/robust_mutex.hpp"

namespace hbmwire::emulation::nic {

/// What a port counts. Those of traffic come first: one cache line for both directions, since two
/// processes on one port would else pass several to and fro with each message.
enum class PortCounter : std::uint8_t {
  xmit_bytes,
  xmit_packets,
  xmit_multicast_packets,
  rcv_bytes,
  rcv_packets,
  rcv_multicast_packets,
  xmit_discards,
  rcv_errors,
  // By the names of mlx5's hw_counters.
  rx_write_requests,
  rx_read_requests,
  rx_atomic_requests,
  out_of_buffer,
  rnr_nak_retry_err,
  local_ack_timeout_err,
  req_cqe_error,
  req_cqe_flush_error,
  req_remote_access_errors,
  req_remote_invalid_request,
  resp_cqe_error,
  resp_cqe_flush_error,
  resp_local_length_error,
  resp_remote_access_errors,
  duplicate_request,
  out_of_sequence,
  packet_seq_err,
  implied_nak_seq_err,
};
inline constexpr std::size_t kPortCounters =
    static_cast<std::size_t>(PortCounter::implied_nak_seq_err) + 1;

/// What all processes share of one port. A record of zeros is a port whose link is up and that has
/// counted nothing.
struct alignas(64) PortRecord {
  std::atomic<std::uint64_t> counters[kPortCounters];
  std::atomic<std::uint32_t> link_changes;  // odd: the link is down
};

static_assert(static_cast<std::size_t>(PortCounter::rx_write_requests) * sizeof(std::uint64_t) ==
              64);

/// An open device: whom to tell that the link of one of its ports went down or up.
struct ContextRecord {
  RobustMutex mutex;  // guards what follows; `told` is stored after the event is written: one may
                      // come twice when its writer dies in between, none is lost
  std::uint32_t lock_made;
  std::atomic<std::uint32_t> claimed;
  std::uint32_t owner;
  std::uint64_t channel;              // the FIFO of its asynchronous events
  std::uint32_t ports[kMaxNicPorts];  // their numbers in the fabric, 0: none
  std::uint32_t told[kMaxNicPorts];   // of how many changes of the link it has been told
};

}  // namespace hbmwire::emulation::nic
