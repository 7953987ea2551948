// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulation/nic/state/ports.hpp"
#include "emulation/nic/transport/request.hpp"

namespace hbmwire::emulation::nic {

/// A request that is waiting or in flight, with copies of the data that it points to.
struct Flight {
  enum class Stage : std::uint8_t {
    queued,      // not begun
    travelling,  // arrives at arrives_ns, or has arrived and waits for the responder
    arrived,     // done at the responder; the answer and the completion are due
  };

  explicit Flight(const Request& posted);
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  Flight(Flight&&) = default;
  Flight& operator=(Flight&&) = default;
  ~Flight() = default;

  /// Gives the request its own payload, independent of the requester's memory, and no completion.
  void carry(std::vector<std::byte> payload);

  Request request;
  std::vector<ibv_sge> elements;
  std::vector<std::byte> data;  // inline data; for READs and atomics the responder's answer
  Stage stage = Stage::queued;
  bool lost = false;       // the requester gives it up, without an answer
  bool astray = false;     // given up, but still in the network
  bool completed = false;  // its completion was written when it arrived
  bool may_swap = false;   // may land after the next WRITE
  unsigned retries = 0;    // that it has used up on its way
  std::uint64_t posted_ns = 0;
  std::uint64_t left_ns = 0;
  std::uint64_t arrives_ns = 0;
  std::uint64_t lands_ns = 0;   // UC and UD, which count as "arrived" when they have left
  std::uint64_t answer_ns = 0;  // the time that its acknowledgement takes
  std::uint64_t completes_ns = 0;
  Outcome outcome;
};

inline bool fetches(const Request& request) { return traits_of(request.opcode)->fetches(); }

/// The times at which the last byte of a message leaves and arrives.
struct Passage {
  std::uint64_t left_ns;
  std::uint64_t arrives_ns;
};

/// Sends `bytes` from one port to another, at `begin_ns` at the earliest. Each direction of a port
/// passes one message at a time, at its NIC's rate. Port 0 stands for an unknown port.
Passage pass(SharedState& shared, Route route, std::uint64_t begin_ns, std::uint64_t bytes);

/// The longer latency of the two NICs.
std::uint64_t latency_of(const SharedState& shared, Route route);

/// The purpose of a random number.
enum class Chance : std::uint8_t { arrival, completion, swap, write_order };
/// A pseudorandom number from 0 to `most`, which is below the largest 64-bit number. It depends
/// only on the seed, the queue pair, the request's index and the purpose, so runs can be repeated.
std::uint64_t by_chance(const Behaviour& behaviour, const QpRecord& qp, std::uint64_t index,
                        Chance purpose, std::uint64_t most);

/// Whether the fault plan drops or delays the request.
inline bool held_up(const Request& request) {
  return request.faults != nullptr &&
         (request.faults->drop || request.faults->delay_ns != 0 || request.faults->late_ns != 0);
}

}  // namespace hbmwire::emulation::nic
