// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "perf_matrices.hpp"

namespace hbmwire::tools::perf::all {
namespace {

TEST(PerfMatrixRounds, MeetEachPairOnceInDisjointRounds) {
  for (std::uint32_t ranks = 2; ranks <= 17; ++ranks) {
    const auto rounds = rounds_of(ranks);
    EXPECT_EQ(rounds.size(), ranks - 1 + ranks % 2) << ranks;
    std::set<RankPair> met;
    for (const auto& round : rounds) {
      EXPECT_EQ(round.size(), ranks / 2) << ranks;
      std::set<std::uint32_t> busy;
      for (const auto& [low, high] : round) {
        EXPECT_LT(low, high);
        EXPECT_LT(high, ranks);
        EXPECT_TRUE(busy.insert(low).second) << ranks << " ranks, rank " << low;
        EXPECT_TRUE(busy.insert(high).second) << ranks << " ranks, rank " << high;
        EXPECT_TRUE(met.emplace(low, high).second) << ranks << ": " << low << ", " << high;
      }
    }
    EXPECT_EQ(met.size(), ranks * (ranks - 1) / 2) << ranks;
  }
}

TEST(PerfMatrixRounds, OneRankHasNoRounds) {
  EXPECT_TRUE(rounds_of(0).empty());
  EXPECT_TRUE(rounds_of(1).empty());
}

/// Ranks with different numbers of NICs, among them none.
MatrixRun uneven_run(const std::vector<std::size_t>& nics_of_ranks) {
  MatrixRun run{.ranks = static_cast<std::uint32_t>(nics_of_ranks.size())};
  for (std::uint32_t rank = 0; rank < run.ranks; ++rank) {
    for (std::size_t nic = 0; nic < nics_of_ranks[rank]; ++nic)
      run.ends.push_back(end_of_rank(rank, nic));
  }
  return run;
}

const std::vector<std::vector<std::size_t>> kClusters{
    {},        {1},          {3},       {1, 1},       {2, 2},
    {1, 1, 1}, {4, 4, 4, 4}, {2, 0, 3}, {0, 0, 1, 5}, {8, 1, 1, 2, 3}};

TEST(PerfMatrixPlan, MeasuresEachCellInExactlyOneStep) {
  for (const auto& cluster : kClusters) {
    MatrixRun run = uneven_run(cluster);
    const auto steps = make_plan(run);
    for (const Phase phase : kPhases) {
      std::vector<int> measured(cells_of(run, phase).size());
      for (const PlanStep& step : steps) {
        if (step.phase != phase) continue;
        EXPECT_FALSE(step.cells.empty());
        for (const std::size_t cell : step.cells) ++measured.at(cell);
      }
      for (const int times : measured) EXPECT_EQ(times, 1) << name_of(phase);
    }
  }
}

TEST(PerfMatrixPlan, HasEveryOrderedPairOfEndsOfDifferentRanks) {
  for (const auto& cluster : kClusters) {
    MatrixRun run = uneven_run(cluster);
    static_cast<void>(make_plan(run));
    std::vector<std::pair<std::size_t, std::size_t>> expected;
    for (std::size_t source = 0; source < run.ends.size(); ++source) {
      for (std::size_t target = 0; target < run.ends.size(); ++target) {
        if (run.ends[source].rank != run.ends[target].rank) expected.emplace_back(source, target);
      }
    }
    ASSERT_EQ(run.pairs.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(std::pair(run.pairs[i].source, run.pairs[i].target), expected[i]);
  }
}

TEST(PerfMatrixPlan, KeepsEachEndToOnePairAtATime) {
  for (const auto& cluster : kClusters) {
    MatrixRun run = uneven_run(cluster);
    for (const PlanStep& step : make_plan(run)) {
      if (step.phase != Phase::pairs) continue;
      std::set<std::uint32_t> busy;
      for (const std::size_t cell : step.cells) {
        EXPECT_TRUE(busy.insert(run.ends[run.pairs[cell].source].rank).second);
        EXPECT_TRUE(busy.insert(run.ends[run.pairs[cell].target].rank).second);
      }
    }
  }
}

TEST(PerfMatrixPlan, SendsAllAtOnceToTheNextRankAndManyToOneEnd) {
  MatrixRun run = uneven_run({2, 2, 2});
  static_cast<void>(make_plan(run));
  ASSERT_EQ(run.all_at_once.size(), 6U);
  for (const Cell& cell : run.all_at_once)
    EXPECT_EQ(cell.target, (cell.source + 2) % 6);  // the same NIC of the next rank
  ASSERT_EQ(run.many_to_one.size(), 12U);
  for (std::size_t i = 0; i < 12; ++i) {
    // Four sources for each target, which is the first end of its rank.
    EXPECT_EQ(run.many_to_one[i].target, i / 4 * 2);
    EXPECT_NE(run.ends[run.many_to_one[i].source].rank, i / 4);
  }
}

TEST(PerfMatrixPlan, GivesEachSourceOfATargetASlotOfItsOwn) {
  for (const auto& cluster : kClusters) {
    MatrixRun run = uneven_run(cluster);
    const auto steps = make_plan(run);
    for (const PlanStep& step : steps) {
      std::set<std::pair<std::size_t, std::size_t>> taken;
      for (const std::size_t cell : step.cells) {
        const std::size_t target = cells_of(run, step.phase)[cell].target;
        const std::size_t slot = slot_of(run, step, cell);
        EXPECT_LT(slot, slots_of(run, steps, target));
        EXPECT_TRUE(taken.emplace(target, slot).second) << target << ", slot " << slot;
      }
    }
  }
}

}  // namespace
}  // namespace hbmwire::tools::perf::all
