// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf_matrices.hpp"
#include "tools/common/failure.hpp"
#include "tools/perf/all/presentation.hpp"

namespace hbmwire::tools::perf::all {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

MatrixComparison compared(const MatrixRun& before, const MatrixRun& now) {
  auto comparison = compare_matrices(before, now);
  EXPECT_TRUE(comparison);
  return comparison ? std::move(*comparison) : MatrixComparison{};
}

TEST(PerfMatrixComparison, ARunDoesNotDifferFromItself) {
  const MatrixRun run = equal_run(4, 2);
  const auto comparison = compared(run, run);
  EXPECT_EQ(comparison.compared,
            run.pairs.size() + run.all_at_once.size() + run.many_to_one.size());
  EXPECT_THAT(comparison.lost, IsEmpty());
  EXPECT_THAT(comparison.worse, IsEmpty());
  EXPECT_THAT(comparison.better, IsEmpty());
  EXPECT_THAT(comparison.regained, IsEmpty());
  EXPECT_THAT(comparison.differences, IsEmpty());
  EXPECT_THAT(comparison_lines(comparison, {.columns = 200}, false),
              ElementsAre(HasSubstr("0 worse and 0 better by more than 10%; 0 lost, 0 regained")));
}

TEST(PerfMatrixComparison, NamesWorseAndBetterCellsBeyondTheNoise) {
  const MatrixRun before = equal_run(4);
  MatrixRun now = before;
  pair_of(now, 0, 1).bytes_per_second = kRate * 0.95;  // noise
  pair_of(now, 0, 2).bytes_per_second = kRate * 1.05;
  pair_of(now, 1, 0).bytes_per_second = kRate * 0.8;
  pair_of(now, 1, 2).bytes_per_second = kRate * 0.5;
  pair_of(now, 2, 3).bytes_per_second = kRate * 1.2;
  pair_of(now, 3, 2).bytes_per_second = kRate * 1.5;
  const auto comparison = compared(before, now);
  ASSERT_THAT(comparison.worse, SizeIs(2));
  EXPECT_EQ(comparison.worse[0].target, "n2 mlx5_0:1 gaudi");  // the worst first
  EXPECT_DOUBLE_EQ(comparison.worse[0].relative, -0.5);
  ASSERT_THAT(comparison.better, SizeIs(2));
  EXPECT_EQ(comparison.better[0].source, "n3 mlx5_0:1 gaudi");  // the best first
  EXPECT_DOUBLE_EQ(comparison.better[0].relative, 0.5);
}

TEST(PerfMatrixComparison, FindsTheReverseOfWhatItFound) {
  std::mt19937_64 random(8);
  std::uniform_real_distribution<double> share(0.8, 1);
  const MatrixRun before = equal_run(6);
  MatrixRun now = before;
  for (Cell& cell : now.pairs) cell.bytes_per_second *= share(random);
  const auto forth = compared(before, now);
  EXPECT_FALSE(forth.worse.empty());
  EXPECT_EQ(forth.worse.size(), compared(now, before).better.size());
}

TEST(PerfMatrixComparison, ShowsLostCellsFirst) {
  const MatrixRun before = equal_run(3);
  MatrixRun now = before;
  now.emulated = true;
  pair_of(now, 0, 1).bytes_per_second *= 0.5;
  fail_cell(pair_of(now, 2, 1), CellState::unreachable, "no route to n1");
  const auto comparison = compared(before, now);
  ASSERT_THAT(comparison.lost, SizeIs(1));
  EXPECT_EQ(comparison.lost[0].problem, "unreachable: no route to n1");
  EXPECT_EQ(comparison.lost[0].now, 0);
  const auto lines = comparison_lines(comparison, {.columns = 200}, false);
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines[0],
              HasSubstr("LOST            : n2 mlx5_0:1 gaudi to n1 mlx5_0:1 gaudi: before "
                        "10.00 GB/s; now unreachable: no route to n1"));
  EXPECT_THAT(lines[1], HasSubstr("not the same    : emulated hardware: yes, before: no"));
  EXPECT_THAT(lines[2], HasSubstr("WORSE           : -50.0%, 5.00 GB/s, before 10.00 GB/s"));
  const auto back = compared(now, before);
  ASSERT_THAT(back.regained, SizeIs(1));
  EXPECT_EQ(back.regained[0].problem, "unreachable: no route to n1");
  EXPECT_EQ(to_json(comparison)["lost"][0]["now"], nullptr);
}

TEST(PerfMatrixComparison, NeedsAnEndInCommon) {
  const MatrixRun before = equal_run(2);
  MatrixRun now = before;
  for (End& end : now.ends) end.host = "m" + end.host;
  for (const auto& [a, b] : {std::pair(before, now), std::pair(MatrixRun{}, now),
                             std::pair(before, MatrixRun{}), std::pair(MatrixRun{}, MatrixRun{})}) {
    const auto comparison = compare_matrices(a, b);
    ASSERT_FALSE(comparison);
    EXPECT_THAT(comparison.error().text, HasSubstr("no host, NIC and memory in common"));
    EXPECT_EQ(comparison.error().exit_code, kExitUsage);
  }
}

TEST(PerfMatrixComparison, FindsEndsThatMovedToOtherRanks) {
  MatrixRun before = equal_run(4);
  MatrixRun now = before;
  std::swap(now.ends[0].host, now.ends[3].host);
  pair_of(now, 3, 1).bytes_per_second *= 0.5;  // n0 to n1
  const auto comparison = compared(before, now);
  ASSERT_THAT(comparison.worse, SizeIs(1));
  EXPECT_EQ(comparison.worse[0].source, "n0 mlx5_0:1 gaudi");
  EXPECT_EQ(comparison.worse[0].target, "n1 mlx5_0:1 gaudi");
  EXPECT_THAT(comparison.only_before, IsEmpty());
}

TEST(PerfMatrixComparison, WithDifferentEndsComparesOnlyTheCommonPairs) {
  const MatrixRun before = equal_run(3);
  const MatrixRun now = equal_run(4);
  const auto comparison = compared(before, now);
  EXPECT_EQ(comparison.compared, before.pairs.size());
  EXPECT_THAT(comparison.only_now, ElementsAre("n3 mlx5_0:1 gaudi"));
  EXPECT_THAT(comparison.lost, IsEmpty());
  EXPECT_THAT(comparison.differences, Contains("ranks: 4, before: 3"));
}

TEST(PerfMatrixComparison, TellsRanksThatShareANicApart) {
  MatrixRun before = equal_run(3);
  for (End& end : before.ends) end.host = "n";
  MatrixRun now = before;
  pair_of(now, 0, 2).bytes_per_second *= 0.5;
  const auto comparison = compared(before, now);
  ASSERT_THAT(comparison.worse, SizeIs(1));
  EXPECT_EQ(comparison.worse[0].source, "n mlx5_0:1 gaudi");
  EXPECT_EQ(comparison.worse[0].target, "n mlx5_0:1 gaudi #3");
}

TEST(PerfMatrixComparison, NamesLinksThatAreNotKnown) {
  MatrixRun before = equal_run(2);
  before.ends[1].link_bytes_per_second = 0;
  EXPECT_THAT(compared(before, equal_run(2)).differences,
              ElementsAre("link of n1 mlx5_0:1 gaudi: 100 Gb/s, before: not known"));
}

TEST(PerfMatrixComparison, FitsItsColumns) {
  const MatrixRun before = equal_run(9, 2);
  MatrixRun now = before;
  lose_rank(now, 3, CellState::unreachable, "connect: 10.0.0.3:4711: Connection refused");
  slow_down(now, 0, 0.2);
  for (const unsigned columns : {0U, 80U, 120U, 200U, 1000U}) {
    const auto comparison = compared(before, now);
    const auto plain = comparison_lines(comparison, {.columns = columns}, true);
    const auto coloured =
        comparison_lines(comparison, {.columns = columns, .coloured = true}, true);
    EXPECT_THAT(plain, Each(SizeIs(testing::Le(std::clamp(columns, 80U, 200U)))));
    EXPECT_THAT(plain, Contains(HasSubstr("and ")));  // more than are shown
    ASSERT_EQ(plain.size(), coloured.size());
    EXPECT_EQ(coloured[0], "\x1b[31m" + plain[0] + "\x1b[0m");
  }
}

}  // namespace
}  // namespace hbmwire::tools::perf::all
