// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "emulation/common/robust_mutex.hpp"
#include "emulation/nic/state/behaviour.hpp"
#include "emulation/nic/state/gid.hpp"
#include "emulation/nic/state/limits.hpp"

namespace hbmwire::emulation::nic {

/// The counters of a port. Those of traffic come first and share a cache line for both directions,
/// because two processes on one port would otherwise pass several lines to and fro with each
/// message.
enum class PortCounter : std::uint8_t {
  xmit_bytes,
  xmit_packets,
  xmit_multicast_packets,
  rcv_bytes,
  rcv_packets,
  rcv_multicast_packets,
  xmit_discards,
  rcv_errors,
  // Named after mlx5's hw_counters.
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
};
inline constexpr std::size_t kPortCounters =
    static_cast<std::size_t>(PortCounter::resp_remote_access_errors) + 1;

inline constexpr std::size_t kMaxCounterFiles = 32;

/// A GID that several processes may write at the same time, but always with the same value.
class SharedGid {
 public:
  using Halves = std::array<std::uint64_t, 2>;  // compared inline; a call to memcmp is slower

  void store(const Gid& gid) noexcept {
    const auto halves = std::bit_cast<Halves>(gid);
    first_.store(halves[0], std::memory_order_relaxed);
    second_.store(halves[1], std::memory_order_relaxed);
  }

  [[nodiscard]] Halves halves() const noexcept {
    return {first_.load(std::memory_order_relaxed), second_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<std::uint64_t> first_;
  std::atomic<std::uint64_t> second_;
};

/// The shared state of one port. A zeroed record is a port whose link is up and whose counters are
/// 0.
struct alignas(64) PortRecord {
  std::atomic<std::uint64_t> counters[kPortCounters];
  std::atomic<std::uint32_t> link_changes;  // odd: the link is down

  // The counters as text (state/counter_files.hpp).
  RobustMutex publishing;  // guards the members below; writing a file twice is harmless. The first
                           // process that opens the NIC fills them in
  std::uint64_t published[kMaxCounterFiles];
  Behaviour behaviour;                                         // of its NIC, for its senders
  std::atomic<std::uint64_t> egress_free_ns, ingress_free_ns;  // when it is free again
  SharedGid gids[kGidTableLength];  // its GID table, as its queue pairs use it
  char directory[128];              // class/infiniband/<nic>/ports/<n>, relative to the fabric
};

static_assert(static_cast<std::size_t>(PortCounter::rx_write_requests) * sizeof(std::uint64_t) ==
              64);

/// A timer for a link that is down, with the time when it comes up. If a process dies while it
/// takes a timer, the timer stays taken; there are many.
struct LinkTimer {
  static constexpr std::uint64_t kFree = 0;
  static constexpr std::uint64_t kTaken = 1;

  std::atomic<std::uint64_t> due_ns;  // kFree, kTaken or a time of now_ns()
  std::atomic<std::uint32_t> port;    // its number in the fabric
};

inline constexpr std::size_t kLinkTimers = 256;

/// Traffic of a queue pair's requests that its port has not counted yet. It lies in cache lines of
/// the requester and is updated by plain additions: locked additions to several counters of a port,
/// which all its processes share, would take a fifth of a small request's time. The sender's mutex
/// guards it. It is collected every 50 ms, or when the process is reaped after a kill.
struct alignas(16) Traffic {
  std::uint64_t xmit_bytes, xmit_packets;  // to the peer's port
  std::uint64_t writes;
  std::uint32_t peer_port;

  enum Noted : std::uint32_t { nothing, counted, known };  // `known`: its collector knows of it

  std::uint32_t noted;
  std::uint64_t rcv_bytes, rcv_packets;  // answers from the peer's port
  std::uint64_t reads, atomics;
};

/// An open device, which is told when the link of one of its ports goes down or up.
struct ContextRecord {
  RobustMutex mutex;  // guards the members below; `told` is stored after the event is written: if
                      // its writer dies in between, an event may come twice, but none is lost
  std::atomic<std::uint32_t> claimed;
  std::uint32_t owner;
  std::uint64_t channel;              // the FIFO of its asynchronous events
  std::uint32_t ports[kMaxNicPorts];  // their numbers in the fabric, 0: none
  std::uint32_t told[kMaxNicPorts];   // the link changes of each port that it has been told of
};

}  // namespace hbmwire::emulation::nic
