// SPDX-License-Identifier: MIT
#include "bench/common/contest.hpp"

#include <algorithm>

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

  [[nodiscard]] double compared_for(const Row& row) const {
    if (row.difference) return ours - theirs;
    return row.better == Better::higher ? theirs / ours : ours / theirs;
  }
};

/// Both sides once, `swapped` in the other order. Nothing: the machine changed around it.
std::optional<Pair> measure(Contest& contest, StateSampler& sampler, bool swapped, Range& range) {
  Pair pair;
  Range states;
  states.add(sampler.sample());
  (swapped ? pair.theirs : pair.ours) = swapped ? contest.theirs() : contest.ours();
  states.add(sampler.sample());
  (swapped ? pair.ours : pair.theirs) = swapped ? contest.ours() : contest.theirs();
  states.add(sampler.sample());
  if (!states.is_steady()) return std::nullopt;
  range.add(states);
  return pair;
}

/// Both sides have touched their memory and filled their caches.
std::unique_ptr<Contest> make_warm(const Row& row, const Effort& effort) {
  auto contest = row.make(effort);
  contest->ours();
  contest->theirs();
  return contest;
}

}  // namespace

Result run(const Row& row, const Effort& effort, StateSampler& sampler) {
  std::unique_ptr<Contest> contest = make_warm(row, effort);
  const unsigned most = effort.quick ? effort.pairs : effort.pairs * 4;
  std::vector<double> ours;
  std::vector<double> theirs;
  std::vector<double> ratios;
  Range range;
  Result result;
  for (unsigned tried = 0; tried < most && ratios.size() < effort.pairs; ++tried) {
    if (row.renewed != 0 && tried != 0 && tried % row.renewed == 0) {
      contest.reset();
      contest = make_warm(row, effort);
    }
    const std::optional<Pair> pair = measure(*contest, sampler, tried % 2 != 0, range);
    if (!pair) {
      ++result.dropped;
      continue;
    }
    ours.push_back(pair->ours);
    theirs.push_back(pair->theirs);
    ratios.push_back(pair->compared_for(row));
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
