// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "hbmwire/counters.hpp"
#include "hbmwire/error.hpp"

/// What `hbmwire stat` sees at a time: values only, which table, JSON and Prometheus' text are made
/// of.
namespace hbmwire::tools::stats {

/// A process that publishes its counters.
struct ProcessSample {
  PublishedCounters now;
  std::optional<Counters> before;  ///< in the sample before; empty: this is the process' first one
  double seconds = 0;              ///< between the two; of a first sample: since it began to count
  bool ended = false;              ///< `now` has its last counts
};

/// A process whose counters can't be read.
struct UnreadableProcess {
  std::uint32_t process = 0;
  Error error;
};

/// A counter of a NIC that one of the processes uses.
struct NicSample {
  NicCounter now;
  std::optional<std::uint64_t> before;  ///< in the sample before
};

struct Sample {
  std::chrono::system_clock::time_point time;
  std::vector<ProcessSample> processes;  ///< by their ids
  std::vector<UnreadableProcess> unreadable;
  std::vector<NicSample> nics;
};

}  // namespace hbmwire::tools::stats
