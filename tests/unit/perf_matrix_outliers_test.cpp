// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf_matrices.hpp"
#include "tools/perf/all/outliers.hpp"
#include "tools/perf/all/statistics.hpp"

namespace hbmwire::tools::perf::all {
namespace {

using testing::HasSubstr;

TEST(PerfMatrixTypicalRate, IsThatOfTheFastPairOfThreeRanks) {
  for (std::size_t slow = 0; slow < 3; ++slow) {
    MatrixRun run = equal_run(3);
    slow_down(run, slow, 0.1);
    EXPECT_EQ(typical_rate(run), kRate) << slow;
  }
}

TEST(PerfMatrixTypicalRate, IsZeroWithoutAMeasuredCell) {
  EXPECT_EQ(typical_rate(planned_run(4, 1)), 0);
  EXPECT_EQ(typical_rate(MatrixRun{}), 0);
  EXPECT_EQ(outliers_of(planned_run(4, 1)).typical_bytes_per_second, 0);
}

TEST(PerfMatrixSpread, TheMedianOfAnEvenNumberIsTheLargerMiddle) {
  EXPECT_EQ(spread_of({}), std::nullopt);
  const auto spread = spread_of({4, 1, 3, 2});
  ASSERT_TRUE(spread);
  EXPECT_EQ(std::tie(spread->count, spread->min, spread->median, spread->max),
            std::make_tuple(4U, 1.0, 3.0, 4.0));
}

TEST(PerfMatrixSums, ATargetWithAFailedSourceHasNoWholeSum) {
  MatrixRun run = equal_run(4);
  fail_cell(run.many_to_one[0], CellState::broken, "cut");
  const auto sums = target_sums(run.many_to_one);
  ASSERT_EQ(sums.size(), 4U);
  EXPECT_EQ(sums[0].measured, 2U);
  EXPECT_EQ(sums[0].failed, 1U);
  EXPECT_THAT(whole_sums(sums), testing::ElementsAre(3 * kRate, 3 * kRate, 3 * kRate));
}

TEST(PerfMatrixShare, IsThatOfTheSlowerLinkAndUnknownIfALinkIs) {
  MatrixRun run = equal_run(2);
  run.ends[1].link_bytes_per_second = 2 * kRate;
  // End 0 has the slower link, of 100 Gb/s, and kRate is 80 Gb/s.
  EXPECT_DOUBLE_EQ(share_of_link(run, run.pairs[0]).value_or(0), 0.8);
  run.ends[1].link_bytes_per_second = 0;
  EXPECT_EQ(share_of_link(run, run.pairs[0]), std::nullopt);
}

TEST(PerfMatrixOutliers, EqualCellsHaveNoOutliers) {
  for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
    for (const std::size_t nics : {1U, 2U, 4U}) {
      const Outliers outliers = outliers_of(equal_run(ranks, nics));
      EXPECT_TRUE(outliers.ends.empty()) << ranks;
      EXPECT_TRUE(outliers.pairs.empty()) << ranks;
    }
  }
}

TEST(PerfMatrixOutliers, NoiseMakesNoOutliers) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> noise(0.9, 1);
  MatrixRun run = equal_run(6, 2);
  for (Cell& cell : run.pairs) cell.bytes_per_second *= noise(random);
  EXPECT_TRUE(outliers_of(run).ends.empty());
  EXPECT_TRUE(outliers_of(run).pairs.empty());
}

TEST(PerfMatrixOutliers, NameOneSlowNicAsAnEnd) {
  for (std::uint32_t ranks = 3; ranks <= 9; ++ranks) {
    for (const std::size_t nics : {1U, 2U}) {
      for (std::size_t slow = 0; slow < ranks * nics; ++slow) {
        MatrixRun run = equal_run(ranks, nics);
        slow_down(run, slow, 0.4);
        const Outliers outliers = outliers_of(run);
        ASSERT_EQ(outliers.ends.size(), 1U) << ranks << " ranks, end " << slow;
        EXPECT_EQ(outliers.ends[0].end, slow);
        EXPECT_TRUE(outliers.ends[0].as_source);
        EXPECT_TRUE(outliers.ends[0].as_target);
        EXPECT_EQ(outliers.ends[0].cells, 2 * (ranks - 1) * nics);
        EXPECT_DOUBLE_EQ(outliers.ends[0].ratio, 0.4);
        EXPECT_TRUE(outliers.pairs.empty());
      }
    }
  }
}

TEST(PerfMatrixOutliers, TellTheDirectionOfASlowNic) {
  MatrixRun run = equal_run(5);
  for (Cell& cell : run.pairs) {
    if (cell.target == 2) cell.bytes_per_second *= 0.5;
  }
  const Outliers outliers = outliers_of(run);
  ASSERT_EQ(outliers.ends.size(), 1U);
  EXPECT_EQ(outliers.ends[0].end, 2U);
  EXPECT_FALSE(outliers.ends[0].as_source);
  EXPECT_TRUE(outliers.ends[0].as_target);
  EXPECT_EQ(outliers.ends[0].cells, 4U);
}

TEST(PerfMatrixOutliers, NameOneSlowPairAsAPair) {
  for (std::uint32_t ranks = 3; ranks <= 9; ++ranks) {
    MatrixRun run = equal_run(ranks);
    pair_of(run, 0, ranks - 1).bytes_per_second *= 0.3;
    const Outliers outliers = outliers_of(run);
    EXPECT_TRUE(outliers.ends.empty()) << ranks;
    ASSERT_EQ(outliers.pairs.size(), 1U) << ranks;
    EXPECT_EQ(outliers.pairs[0].cell.source, 0U);
    EXPECT_EQ(outliers.pairs[0].cell.target, ranks - 1);
    EXPECT_DOUBLE_EQ(outliers.pairs[0].ratio, 0.3);
    EXPECT_THAT(outliers.pairs[0].reason, HasSubstr("hbmwire doctor"));
  }
}

TEST(PerfMatrixOutliers, NameAPairThatIsSlowerThanItsSlowNic) {
  MatrixRun run = equal_run(6);
  slow_down(run, 1, 0.5);
  pair_of(run, 1, 4).bytes_per_second *= 0.2;
  pair_of(run, 3, 5).bytes_per_second *= 0.6;
  const Outliers outliers = outliers_of(run);
  ASSERT_EQ(outliers.ends.size(), 1U);
  EXPECT_EQ(outliers.ends[0].end, 1U);
  ASSERT_EQ(outliers.pairs.size(), 2U);  // the slowest first
  EXPECT_EQ(outliers.pairs[0].cell.target, 4U);
  EXPECT_EQ(outliers.pairs[1].cell.target, 5U);
}

TEST(PerfMatrixOutliers, DoNotNameAnUnreachableRank) {
  MatrixRun run = equal_run(5);
  lose_rank(run, 3, CellState::unreachable, "no route");
  const Outliers outliers = outliers_of(run);
  EXPECT_EQ(outliers.typical_bytes_per_second, kRate);
  EXPECT_TRUE(outliers.ends.empty());
  EXPECT_TRUE(outliers.pairs.empty());
}

TEST(PerfMatrixOutliers, SpeakOfMostOthersOnlyWhereTheyAreMost) {
  MatrixRun run = equal_run(2);
  pair_of(run, 0, 1).bytes_per_second *= 0.5;
  pair_of(run, 0, 1).path = "RDMA write, bounced";
  run.ends[0].path = "bounce buffer";
  run.ends[0].distance = "SYS";
  EXPECT_THAT(outliers_of(run).pairs.at(0).reason, HasSubstr("neither end explains it"));
}

TEST(PerfMatrixOutliers, GiveTheLinkPathAndFactsAsReasons) {
  MatrixRun run = equal_run(4);
  slow_down(run, 2, 0.1);
  EXPECT_THAT(outliers_of(run).ends.at(0).reason, HasSubstr("run `hbmwire doctor` on n2"));
  run.ends[2].link_bytes_per_second = 1.25e9;
  run.ends[2].path = "bounce buffer";
  run.ends[2].facts = {"its slot has one lane."};
  EXPECT_EQ(outliers_of(run).ends.at(0).reason,
            "its link is 10 Gb/s, the median's 100 Gb/s; its path is bounce buffer, that of most "
            "others zero-copy dma-buf; its slot has one lane");
}

}  // namespace
}  // namespace hbmwire::tools::perf::all
