// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

#include "tools/perf/endpoint/links.hpp"
#include "tools/perf/engine_steps.hpp"
#include "tools/perf/pace.hpp"
#include "tools/perf/statistics.hpp"
#include "tools/perf/watch.hpp"

namespace hbmwire::tools::perf {

/// Many transfers in flight, in one direction or both.
struct Flow {
  Verb verb = Verb::put;
  bool starts = false;  ///< this side starts transfers
  bool takes = false;   ///< this side receives messages
  bool events = false;
  std::uint64_t messages = 0;           ///< messages to start on each link; 0: for `duration`
  std::chrono::nanoseconds duration{};  ///< used if `messages` is 0
  Pace pace;
  const Slots* slots = nullptr;
  Marks* posts = nullptr;  ///< receives the times of posts; null: not recorded
  Marks* completions = nullptr;
};

/// Posts receives before the peer may send.
Outcome<void> start_receives(Links& links, const Flow& flow);

/// Runs one pass, until it is complete on this side.
Outcome<PassResult> run_flow(Links& links, const Flow& flow, Watch& watch);

/// Transfers one after the other.
struct Echo {
  enum class Kind : std::uint8_t {
    memory,     ///< a put each way, which the CPU sees in host memory
    immediate,  ///< a put each way, reported by its immediate value
    message,    ///< a tagged message each way
    get,        ///< a get until its completion
  } kind = Kind::memory;
  bool starts = false;  ///< this side sends first
  bool events = false;
  std::uint64_t rounds = 0;  ///< 0: for `duration`
  std::chrono::nanoseconds duration{};
  std::uint64_t size_bytes = 0;
  std::uint64_t offset_bytes = 0;  ///< offset of the slot
  LastBytes last;                  ///< for Kind::memory
};

/// Posts the first receive before the peer may begin.
Outcome<void> start_receives(Links& links, const Echo& echo);

/// Runs the round trips of a pass on the first link. `samples`: times in ticks, on the side that
/// sends first.
Outcome<PassResult> run_echo(Links& links, const Echo& echo, Watch& watch, LatencySamples& samples);

}  // namespace hbmwire::tools::perf
