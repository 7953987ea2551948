// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "hbmwire/counters.hpp"
#include "hbmwire/error.hpp"

/// The data of `hbmwire stat` at one moment. They are plain values, from which table, JSON and
/// Prometheus' text are made.
namespace hbmwire::tools::stats {

/// A process that publishes its counters.
struct ProcessSample {
  PublishedCounters now;
  std::optional<Counters> before;  ///< in the sample before; empty in the first sample of the
                                   ///< process
  double seconds = 0;              ///< between the two samples; in the first sample, since the
                                   ///< process began to count
  bool ended = false;              ///< `now` has its final counts
};

/// A process whose counters cannot be read.
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
  std::vector<ProcessSample> processes;  ///< sorted by id
  std::vector<UnreadableProcess> unreadable;
  std::vector<NicSample> nics;
};

}  // namespace hbmwire::tools::stats
