// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "bench/common/peer.hpp"

namespace hbmwire::bench {

/// The speed of a virtual machine's CPUs now: the time of a fixed piece of work on the first one,
/// and the time that a cache line takes to the second one.
struct State {
  double work_ns = 0;
  double hop_ns = 0;
};

/// The least and the greatest of some states.
struct Range {
  State least{1e18, 1e18};
  State most;

  void add(const State& state) {
    least.work_ns = std::min(least.work_ns, state.work_ns);
    least.hop_ns = std::min(least.hop_ns, state.hop_ns);
    most.work_ns = std::max(most.work_ns, state.work_ns);
    most.hop_ns = std::max(most.hop_ns, state.hop_ns);
  }

  void add(const Range& other) {
    add(other.least);
    add(other.most);
  }

  [[nodiscard]] bool is_steady() const {
    // How much slower the slowest state may be than the fastest one.
    constexpr double kWork = 1.2;
    constexpr double kHop = 1.5;
    return most.work_ns <= kWork * least.work_ns && most.hop_ns <= kHop * least.hop_ns;
  }
};

/// Samples the state of the machine, in about 0.3 ms. Its partner on the other CPU sleeps in
/// between.
class StateSampler {
 public:
  explicit StateSampler(const Cpus& cpus);

  State sample();

 private:
  struct Ball {
    // On a cache line of its own, which then moves between the CPUs.
    alignas(64) std::atomic<std::uint32_t> round;
  };

  double hop_ns();

  Ball* ball_;
  Peer partner_;
};

}  // namespace hbmwire::bench
