// SPDX-License-Identifier: MIT
#include "tools/perf/all/plan.hpp"

#include <algorithm>
#include <map>

namespace hbmwire::tools::perf::all {
namespace {

/// The ends of each rank, as indices into MatrixRun::ends.
using EndsOfRanks = std::vector<std::vector<std::size_t>>;

EndsOfRanks ends_of_ranks(const MatrixRun& run) {
  EndsOfRanks ends(run.ranks);
  for (std::size_t end = 0; end < run.ends.size(); ++end) ends[run.ends[end].rank].push_back(end);
  return ends;
}

/// The index into MatrixRun::pairs of the cell from one end to another.
using CellIndex = std::map<std::pair<std::size_t, std::size_t>, std::size_t>;

/// Adds a cell for each ordered pair of ends of different ranks.
CellIndex add_pairs(MatrixRun& run) {
  CellIndex index;
  for (std::size_t source = 0; source < run.ends.size(); ++source) {
    for (std::size_t target = 0; target < run.ends.size(); ++target) {
      if (run.ends[source].rank == run.ends[target].rank) continue;
      index[{source, target}] = run.pairs.size();
      run.pairs.push_back({.source = source, .target = target});
    }
  }
  return index;
}

/// The cells of two ranks, one direction after the other.
std::vector<std::size_t> cells_between(const EndsOfRanks& ends, const RankPair& pair,
                                       const CellIndex& index) {
  std::vector<std::size_t> cells;
  for (const auto& [from, to] : {pair, RankPair(pair.second, pair.first)}) {
    for (const std::size_t source : ends[from]) {
      for (const std::size_t target : ends[to]) cells.push_back(index.at({source, target}));
    }
  }
  return cells;
}

/// The first cells of all pairs of a round are one step, their second ones the next, and so on.
void add_pair_steps(const MatrixRun& run, const EndsOfRanks& ends, const CellIndex& index,
                    std::vector<PlanStep>& steps) {
  for (const auto& round : rounds_of(run.ranks)) {
    std::vector<PlanStep> of_round;
    for (const RankPair& pair : round) {
      const auto cells = cells_between(ends, pair, index);
      if (of_round.size() < cells.size()) of_round.resize(cells.size());
      for (std::size_t i = 0; i < cells.size(); ++i) of_round[i].cells.push_back(cells[i]);
    }
    steps.insert(steps.end(), of_round.begin(), of_round.end());
  }
}

/// Each end writes to the end of the next rank that has the same place among its rank's ends, or to
/// those in turn if there are fewer.
void add_all_at_once(MatrixRun& run, const EndsOfRanks& ends, std::vector<PlanStep>& steps) {
  PlanStep step{.phase = Phase::all_at_once, .cells = {}};
  for (std::size_t source = 0; source < run.ends.size(); ++source) {
    const std::uint32_t rank = run.ends[source].rank;
    const auto& targets = ends[(rank + 1) % run.ranks];
    if (targets.empty() || run.ranks < 2) continue;
    const auto place =
        static_cast<std::size_t>(std::ranges::find(ends[rank], source) - ends[rank].begin());
    step.cells.push_back(run.all_at_once.size());
    run.all_at_once.push_back({.source = source, .target = targets[place % targets.size()]});
  }
  if (!step.cells.empty()) steps.push_back(std::move(step));
}

void add_many_to_one(MatrixRun& run, const EndsOfRanks& ends, std::vector<PlanStep>& steps) {
  for (std::uint32_t rank = 0; rank < run.ranks; ++rank) {
    if (ends[rank].empty()) continue;
    PlanStep step{.phase = Phase::many_to_one, .cells = {}};
    for (std::size_t source = 0; source < run.ends.size(); ++source) {
      if (run.ends[source].rank == rank) continue;
      step.cells.push_back(run.many_to_one.size());
      run.many_to_one.push_back({.source = source, .target = ends[rank].front()});
    }
    if (!step.cells.empty()) steps.push_back(std::move(step));
  }
}

}  // namespace

std::vector<std::vector<RankPair>> rounds_of(std::uint32_t ranks) {
  std::vector<std::vector<RankPair>> rounds;
  if (ranks < 2) return rounds;
  // An odd number gets one more place, whose partner rests.
  const std::uint32_t places = ranks + ranks % 2;
  const std::uint32_t circle = places - 1;  // the places that turn
  for (std::uint32_t round = 0; round < circle; ++round) {
    std::vector<RankPair> pairs;
    const auto add = [&](std::uint32_t a, std::uint32_t b) {
      if (a < ranks && b < ranks) pairs.emplace_back(std::min(a, b), std::max(a, b));
    };
    // The last place stays, and the others turn around it.
    add(round, circle);
    for (std::uint32_t i = 1; i < places / 2; ++i)
      add((round + i) % circle, (round + circle - i) % circle);
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

std::vector<PlanStep> make_plan(MatrixRun& run) {
  std::vector<PlanStep> steps;
  const EndsOfRanks ends = ends_of_ranks(run);
  const CellIndex index = add_pairs(run);
  add_pair_steps(run, ends, index, steps);
  add_all_at_once(run, ends, steps);
  add_many_to_one(run, ends, steps);
  return steps;
}

const Cell& pair_cell(const MatrixRun& run, std::size_t source, std::size_t target) {
  // add_pairs() has sorted them.
  const auto ends = [](const Cell& cell) { return std::pair(cell.source, cell.target); };
  return *std::ranges::lower_bound(run.pairs, std::pair(source, target), {}, ends);
}

std::size_t slot_of(const MatrixRun& run, const PlanStep& step, std::size_t cell) {
  const auto& cells = cells_of(run, step.phase);
  std::size_t slot = 0;
  for (const std::size_t other : step.cells) {
    if (other == cell) break;
    if (cells[other].target == cells[cell].target) ++slot;
  }
  return slot;
}

std::size_t slots_of(const MatrixRun& run, const std::vector<PlanStep>& steps, std::size_t end) {
  std::size_t most = 1;
  for (const PlanStep& step : steps) {
    const auto& cells = cells_of(run, step.phase);
    const auto here = std::ranges::count_if(
        step.cells, [&](std::size_t cell) { return cells[cell].target == end; });
    most = std::max(most, static_cast<std::size_t>(here));
  }
  return most;
}

}  // namespace hbmwire::tools::perf::all
