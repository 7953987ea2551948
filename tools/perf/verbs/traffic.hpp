// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "tools/perf/engine_steps.hpp"
#include "tools/perf/pace.hpp"
#include "tools/perf/statistics.hpp"
#include "tools/perf/verbs/receiver_datapath.hpp"
#include "tools/perf/verbs/sender_datapath.hpp"
#include "tools/perf/verbs/sleeper.hpp"
#include "tools/perf/watch.hpp"

namespace hbmwire::tools::perf {

/// Many messages in flight, in one direction or both.
struct Traffic {
  Remote remote = Remote::none;
  bool sends = false;
  bool receives = false;    ///< this side receives messages
  bool unreliable = false;  ///< messages may get lost
  bool events = false;
  std::uint64_t messages = 0;           ///< messages to send on each lane; 0: for `duration`
  std::chrono::nanoseconds duration{};  ///< used if `messages` is 0
  std::uint64_t expected = 0;           ///< arrivals on all lanes; 0: until the peer has finished
  Sending sending;
  Receiving receiving;
  Pace pace;
};

/// Posts the receives of a pass. To be called before the peer may send.
Outcome<void> start_receives(Lanes& lanes, Receiver& receiver);

/// Runs one pass, until it is complete on this side.
Outcome<PassResult> run_traffic(Lanes& lanes, const Traffic& traffic, Receiver& receiver,
                                Watch& watch);

/// One message after the other.
struct Bounce {
  enum class Kind : std::uint8_t {
    memory,      ///< a WRITE each way, which the CPU sees in host memory
    completion,  ///< a message each way, reported by its completion
    one_sided,   ///< a READ or atomic until its completion
  } kind = Kind::memory;
  bool starts = false;  ///< this side sends first
  bool events = false;
  std::uint64_t rounds = 0;  ///< 0: for `duration`
  std::chrono::nanoseconds duration{};
  LastBytes last;  ///< for Kind::memory
};

/// Runs the round trips of a pass. `samples`: times in ticks, on the side that measures.
Outcome<PassResult> run_bounce(Lanes& lanes, const Bounce& bounce, Receiver& receiver, Watch& watch,
                               LatencySamples& samples);

/// The failure that describes this fault.
[[nodiscard]] Failure explain(const Lanes& lanes, const Fault& fault);

}  // namespace hbmwire::tools::perf
