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
};
inline constexpr std::size_t kPortCounters =
    static_cast<std::size_t>(PortCounter::resp_remote_access_errors) + 1;

inline constexpr std::size_t kMaxCounterFiles = 32;

/// A GID that several write at the same time, always as the same one.
class SharedGid {
 public:
  using Halves = std::array<std::uint64_t, 2>;  // compared inline, a call to memcmp is slower

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

/// What all processes share of one port. A record of zeros is a port whose link is up and that has
/// counted nothing.
struct alignas(64) PortRecord {
  std::atomic<std::uint64_t> counters[kPortCounters];
  std::atomic<std::uint32_t> link_changes;  // odd: the link is down

  // Its counters as text (state/counter_files.hpp).
  RobustMutex publishing;  // guards what follows; a file that was written twice is harmless. Made
                           // by the first who opens the port's NIC
  std::uint64_t published[kMaxCounterFiles];
  Behaviour behaviour;  // of its NIC, for those who send to it
  std::atomic<std::uint64_t> egress_free_ns, ingress_free_ns;  // when what it passes is through
  SharedGid gids[kGidTableLength];  // its table, as the queue pairs on it have it
  char directory[128];  // class/infiniband/<nic>/ports/<n> of its node, from the fabric's directory
};

static_assert(static_cast<std::size_t>(PortCounter::rx_write_requests) * sizeof(std::uint64_t) ==
              64);

/// A link that is down for a time, and when it is to come up. One whose process dies in the moment
/// of taking it stays taken; there are many.
struct LinkTimer {
  static constexpr std::uint64_t kFree = 0;
  static constexpr std::uint64_t kTaken = 1;

  std::atomic<std::uint64_t> due_ns;  // kFree, kTaken or a time
  std::atomic<std::uint32_t> port;    // its number in the fabric
};

inline constexpr std::size_t kLinkTimers = 256;

/// What a queue pair's requests moved and its port has not counted yet. In cache lines of the
/// requester's own, with plain additions: the ports' counters are everybody's, and locked additions
/// to several of them would be a fifth of a small request. Guarded by the sender's mutex; collected
/// from it every 50 ms, or by who reaps a process that was killed.
struct alignas(16) Traffic {
  std::uint64_t xmit_bytes, xmit_packets;  // to the peer's port
  std::uint64_t writes;
  std::uint32_t peer_port;

  enum Noted : std::uint32_t { nothing, counted, known };  // `known` to who collects it

  std::uint32_t noted;
  std::uint64_t rcv_bytes, rcv_packets;  // from the peer's port: answers
  std::uint64_t reads, atomics;
};

/// An open device: whom to tell that the link of one of its ports went down or up.
struct ContextRecord {
  RobustMutex mutex;  // guards what follows; `told` is stored after the event is written: one may
                      // come twice when its writer dies in between, none is lost
  std::atomic<std::uint32_t> claimed;
  std::uint32_t owner;
  std::uint64_t channel;              // the FIFO of its asynchronous events
  std::uint32_t ports[kMaxNicPorts];  // their numbers in the fabric, 0: none
  std::uint32_t told[kMaxNicPorts];   // of how many changes of the link it has been told
};

}  // namespace hbmwire::emulation::nic
