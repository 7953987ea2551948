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

/// Many transfers under way, in one direction or both.
struct Flow {
  Verb verb = Verb::put;
  bool starts = false;  ///< transfers, and
  bool takes = false;   ///< messages of the peer's
  bool events = false;
  std::uint64_t messages = 0;           ///< to start, of each link; 0: by time
  std::chrono::nanoseconds duration{};  ///< then
  Pace pace;
  const Slots* slots = nullptr;
  Marks* posts = nullptr;  ///< where the times of posts and completions go; null: nowhere
  Marks* completions = nullptr;
};

/// Has receives ready, before the peer may send.
Outcome<void> start_receives(Links& links, const Flow& flow);

/// One pass.
Outcome<PassResult> run_flow(Links& links, const Flow& flow, Watch& watch);

/// One transfer at a time.
struct Echo {
  enum class Kind : std::uint8_t {
    memory,     ///< a put to and one fro, seen by the CPU in host memory
    immediate,  ///< the same, seen by their immediates
    message,    ///< a tagged message to and one fro
    get,        ///< over when complete
  } kind = Kind::memory;
  bool starts = false;  ///< this side's is the first
  bool events = false;
  std::uint64_t rounds = 0;  ///< 0: by time
  std::chrono::nanoseconds duration{};
  std::uint64_t size_bytes = 0;
  std::uint64_t offset_bytes = 0;  ///< of the slot
  LastBytes last;                  ///< Kind::memory
};

/// Has the first receive ready, before the peer may begin.
Outcome<void> start_receives(Links& links, const Echo& echo);

/// The round trips of a pass, on the first link. `samples`: in ticks, of the side that starts.
Outcome<PassResult> run_echo(Links& links, const Echo& echo, Watch& watch, LatencySamples& samples);

}  // namespace hbmwire::tools::perf
