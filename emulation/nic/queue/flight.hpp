// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulation/nic/state/ports.hpp"
#include "emulation/nic/transport/request.hpp"

namespace hbmwire::emulation::nic {

/// A request that is not over, with what it points to.
struct Flight {
  enum class Stage : std::uint8_t {
    queued,      // nothing of it has left
    travelling,  // it arrives at arrives_ns, or has arrived and waits for the responder
    arrived,     // it is done but for its completion, and for what that brings here
  };

  explicit Flight(const Request& posted);
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  Flight(Flight&&) = default;
  Flight& operator=(Flight&&) = default;
  ~Flight() = default;

  /// Makes `payload` what it moves, whatever becomes of the requester's memory and completion.
  void carry(std::vector<std::byte> payload);

  Request request;
  std::vector<ibv_sge> elements;
  std::vector<std::byte> data;  // inline data; of a READ or an atomic what the responder answered
  Stage stage = Stage::queued;
  bool lost = false;       // the requester's time runs out
  bool astray = false;     // while it is in the network
  bool completed = false;  // its completion was written when it arrived
  bool may_swap = false;   // with the WRITE behind it
  unsigned retries = 0;    // that it has used up on its way
  std::uint64_t posted_ns = 0;
  std::uint64_t left_ns = 0;
  std::uint64_t arrives_ns = 0;
  std::uint64_t lands_ns = 0;   // without acknowledgement: it has "arrived" when it has left
  std::uint64_t answer_ns = 0;  // how long its acknowledgement takes
  std::uint64_t completes_ns = 0;
  Outcome outcome;
};

inline bool fetches(const Request& request) { return traits_of(request.opcode)->fetches(); }

/// When a message's last byte is through.
struct Passage {
  std::uint64_t left_ns;
  std::uint64_t arrives_ns;
};

/// Sends `bytes` from a port to another, from `begin_ns` on at the earliest: each direction of each
/// of them passes one message at a time, at its NIC's rate. Port 0 is none that is known.
Passage pass(SharedState& shared, Route route, std::uint64_t begin_ns, std::uint64_t bytes);

/// The longer of both NICs' latencies.
std::uint64_t latency_of(const SharedState& shared, Route route);

/// A number that a request's place decides, and nothing else: 0 to `most`.
enum class Chance : std::uint8_t { arrival, completion, swap, scatter };
std::uint64_t by_chance(const Behaviour& behaviour, const QpRecord& qp, std::uint64_t index,
                        Chance purpose, std::uint64_t most);

/// Whether a fault plan decides when, or if, a request arrives.
inline bool held_up(const Request& request) {
  return request.faults != nullptr &&
         (request.faults->drop || request.faults->delay_ns != 0 || request.faults->late_ns != 0);
}

}  // namespace hbmwire::emulation::nic
