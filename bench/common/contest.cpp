// SPDX-License-Identifier: MIT
#include "bench/common/contest.hpp"

#include <algorithm>
#include <stdexcept>

#include "bench/common/machine_state.hpp"
#include "bench/common/peer.hpp"
#include "bench/common/timing.hpp"

namespace hbmwire::bench {
namespace {

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values.empty()
             ? 0
             : values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

struct Pair {
  double ours = 0;
  double theirs = 0;

  /// As Row says: how much longer ours takes in ns, the ratio of speeds, or the ratio of times.
  [[nodiscard]] double compared_for(const Row& row) const {
    if (row.difference) return ours - theirs;
    return row.better == Better::higher ? theirs / ours : ours / theirs;
  }
};

/// One measurement of both sides.
struct Attempt {
  Pair pair;
  Range states;  // states of the machine before and after it
};

/// Measures both sides. `swapped`: in the other order.
Attempt measure(Contest& contest, StateSampler& sampler, bool swapped) {
  Attempt attempt;
  Pair& pair = attempt.pair;
  attempt.states.add(sampler.sample());
  (swapped ? pair.theirs : pair.ours) = swapped ? contest.theirs() : contest.ours();
  attempt.states.add(sampler.sample());
  (swapped ? pair.ours : pair.theirs) = swapped ? contest.ours() : contest.theirs();
  attempt.states.add(sampler.sample());
  return attempt;
}

/// Makes a contest whose sides have touched their memory and filled their caches. That takes three
/// slices: one is 200 requests of each queue pair, and the emulated NIC's locks favour a thread
/// once it has taken them 512 times in a row.
std::unique_ptr<Contest> make_warm(const Row& row, const Effort& effort) {
  constexpr int kSlices = 3;
  auto contest = row.make(effort);
  for (int slice = 0; slice < kSlices; ++slice) {
    contest->ours();
    contest->theirs();
  }
  return contest;
}

/// The pairs to measure with one start of both sides. The number of a pair decides the order of its
/// sides.
struct Round {
  unsigned first = 0;   // number of its first pair
  unsigned wanted = 0;  // ends after this many pairs around which the machine was steady
  unsigned most = 0;    // ends after this many pairs in any case
};

/// Measures in a process of its own, so that memory, caches and libraries of an earlier row do not
/// matter.
std::vector<Attempt> measure_apart(const Row& row, const Effort& effort, const Round& round) {
  const Cpus cpus = Cpus::allowed();
  Peer process(cpus.first, [&](Line& line) {
    StateSampler sampler(cpus);
    const std::unique_ptr<Contest> contest = make_warm(row, effort);
    std::vector<Attempt> attempts;
    for (unsigned kept = 0; kept < round.wanted && attempts.size() < round.most;) {
      const auto number = round.first + static_cast<unsigned>(attempts.size());
      attempts.push_back(measure(*contest, sampler, number % 2 != 0));
      if (attempts.back().states.is_steady()) ++kept;
    }
    // Sent only after the last pair, since the reader needs a CPU to receive them.
    for (const Attempt& attempt : attempts) line.send(attempt);
  });
  std::vector<Attempt> attempts;
  for (Attempt attempt; process.line().next(attempt);) attempts.push_back(attempt);
  if (attempts.empty()) throw std::runtime_error(row.name + " was not measured");
  return attempts;
}

}  // namespace

Result run(const Row& row, const Effort& effort) {
  constexpr unsigned kPairsOfRound = 3;
  // Drops at most three of four pairs, so a machine that is never steady does not measure for ever.
  const unsigned most = effort.quick ? effort.pairs : effort.pairs * 4;
  std::vector<double> ours;
  std::vector<double> theirs;
  std::vector<double> ratios;
  Range range;
  Result result;
  for (unsigned tried = 0; tried < most && ratios.size() < effort.pairs;) {
    const unsigned left = most - tried;
    const Round round{.first = tried,
                      .wanted = effort.pairs - static_cast<unsigned>(ratios.size()),
                      .most = row.renewed ? std::min(kPairsOfRound, left) : left};
    for (const auto& [pair, states] : measure_apart(row, effort, round)) {
      ++tried;
      if (!states.is_steady()) {
        ++result.dropped;
        continue;
      }
      range.add(states);
      ours.push_back(pair.ours);
      theirs.push_back(pair.theirs);
      ratios.push_back(pair.compared_for(row));
    }
  }
  result.kept = static_cast<unsigned>(ratios.size());
  result.ours_ns = median(ours);
  result.theirs_ns = median(theirs);
  result.ratio = median(ratios);
  result.lowest = quantile(ratios, 0.25);
  result.highest = quantile(ratios, 0.75);
  result.fastest = range.least;
  result.slowest = range.most;
  return result;
}

}  // namespace hbmwire::bench
