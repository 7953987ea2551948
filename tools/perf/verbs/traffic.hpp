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

/// Many messages under way, in one direction or both.
struct Traffic {
  Remote remote = Remote::none;
  bool sends = false;
  bool receives = false;    ///< messages of the peer's
  bool unreliable = false;  ///< messages may get lost
  bool events = false;
  std::uint64_t messages = 0;           ///< to send, of each lane; 0: by time
  std::chrono::nanoseconds duration{};  ///< then
  std::uint64_t expected = 0;           ///< arrivals of all lanes; 0: until the peer is done
  Sending sending;
  Receiving receiving;
  Pace pace;
};

/// Prepares the receives of a pass; before the peer may send.
Outcome<void> start_receives(Lanes& lanes, Receiver& receiver);

/// One pass.
Outcome<PassResult> run_traffic(Lanes& lanes, const Traffic& traffic, Receiver& receiver,
                                Watch& watch);

/// One message at a time.
struct Bounce {
  enum class Kind : std::uint8_t {
    memory,      ///< a WRITE to and one fro, seen by the CPU in host memory
    completion,  ///< a message to and one fro, each seen by its completion
    one_sided,   ///< READ or atomic: over when complete
  } kind = Kind::memory;
  bool starts = false;  ///< this side's message is the first
  bool events = false;
  std::uint64_t rounds = 0;  ///< 0: by time
  std::chrono::nanoseconds duration{};
  LastBytes last;  ///< Kind::memory
};

/// The round trips of a pass, if this side times them. `samples`: in ticks.
Outcome<PassResult> run_bounce(Lanes& lanes, const Bounce& bounce, Receiver& receiver, Watch& watch,
                               LatencySamples& samples);

/// The failure that a fault is.
[[nodiscard]] Failure explain(const Lanes& lanes, const Fault& fault);

}  // namespace hbmwire::tools::perf
