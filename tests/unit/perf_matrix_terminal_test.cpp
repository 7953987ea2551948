// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <regex>

#include "perf_matrices.hpp"
#include "tools/common/colours.hpp"
#include "tools/perf/all/presentation.hpp"

namespace hbmwire::tools::perf::all {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line + '\n';
  return text;
}

/// Without line ends and indents, so that a wrapped sentence is found.
std::string unwrapped(const std::vector<std::string>& lines) {
  return std::regex_replace(text_of(lines), std::regex("\\s+"), " ");
}

std::string without_colours(std::string text) {
  for (const char* colour : {kGreen, kYellow, kRed, kPlain}) {
    for (auto at = text.find(colour); at != std::string::npos; at = text.find(colour, at))
      text.erase(at, std::strlen(colour));
  }
  return text;
}

/// One rank that broke, one slow NIC, one slow pair, and cells that failed in each way.
MatrixRun troubled_run(std::uint32_t ranks, std::size_t nics_of_rank) {
  MatrixRun run = equal_run(ranks, nics_of_rank);
  slow_down(run, 0, 0.3);
  const std::vector<CellState> states{CellState::unreachable, CellState::broken, CellState::corrupt,
                                      CellState::not_measured};
  for (std::size_t i = 0; i < std::min(states.size(), run.pairs.size() / 4); ++i)
    fail_cell(run.pairs[i * 4], states[i], fmt::format("connect: the {}. problem of n1", i));
  if (ranks > 3) {
    lose_rank(run, ranks - 1, CellState::not_measured, "its rank did not get so far");
    run.broken.push_back(
        {ranks - 1, fmt::format("n{}", ranks - 1), "it ended while round 3 was measured"});
  }
  return run;
}

void expect_fitting(const MatrixRun& run) {
  for (const unsigned columns : {80U, 120U, 200U}) {
    for (const bool gigabits : {false, true}) {
      const auto plain = matrix_lines(run, {.columns = columns}, gigabits);
      const auto coloured = matrix_lines(run, {.columns = columns, .coloured = true}, gigabits);
      for (const auto& line : plain)
        EXPECT_LE(line.size(), columns) << run.ends.size() << " ends\n" << line;
      EXPECT_EQ(without_colours(text_of(coloured)), text_of(plain));
      EXPECT_NE(text_of(coloured), text_of(plain));
      EXPECT_EQ(text_of(plain).find('\x1b'), std::string::npos);
    }
  }
}

TEST(PerfMatrixTerminal, KeepsWithinTheColumnsWith1To70Ends) {
  for (std::uint32_t ranks = 2; ranks <= 70; ++ranks) expect_fitting(troubled_run(ranks, 1));
  for (std::uint32_t ranks = 2; ranks <= 9; ++ranks) {
    for (const std::size_t nics : {2U, 5U, 8U}) expect_fitting(troubled_run(ranks, nics));
  }
  for (const auto& line : matrix_lines(equal_run(1), {}, false)) EXPECT_LE(line.size(), 80U);
}

TEST(PerfMatrixTerminal, KeepsWithinTheColumnsWithLongNames) {
  MatrixRun run = troubled_run(6, 2);
  for (End& end : run.ends) {
    end.host = fmt::format("gpu-node-{:04}.rack-17.cluster.example.com", end.rank);
    end.nic = "rocep129s0f1np1:1";
    end.device = "NVIDIA H100 80GB HBM3 0000:9b:00.0";
    end.path = "a bounce buffer of the host's memory";
  }
  expect_fitting(run);
  const std::string text = unwrapped(matrix_lines(run, {}, false));
  for (const End& end : run.ends) EXPECT_THAT(text, HasSubstr(end.host));
}

TEST(PerfMatrixTerminal, KeepsWithinTheColumnsWithRatesOfAllMagnitudes) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 50; ++round) {
    MatrixRun run = troubled_run(2 + static_cast<std::uint32_t>(random() % 20), 1);
    for (Cell& cell : run.pairs) {
      if (cell.state == CellState::measured)
        cell.bytes_per_second = std::pow(10.0, static_cast<double>(random() % 20));
    }
    expect_fitting(run);
  }
}

TEST(PerfMatrixTerminal, KeepsWithinTheColumnsWith300Ranks) {
  MatrixRun run = equal_run(300);
  lose_rank(run, 17, CellState::unreachable, "no route");
  for (const auto& line : matrix_lines(run, {.columns = 80}, false)) EXPECT_LE(line.size(), 80U);
}

TEST(PerfMatrixTerminal, TakesOtherWidthsAs80Or200) {
  const MatrixRun run = troubled_run(8, 1);
  EXPECT_EQ(matrix_lines(run, {.columns = 0}, false), matrix_lines(run, {.columns = 80}, false));
  EXPECT_EQ(matrix_lines(run, {.columns = 9999}, false),
            matrix_lines(run, {.columns = 200}, false));
}

TEST(PerfMatrixTerminal, ShowsTheFigureOfEachCell) {
  MatrixRun run = equal_run(3);
  pair_of(run, 0, 1).bytes_per_second = 3.456e9;
  fail_cell(pair_of(run, 2, 0), CellState::corrupt, "verify: 1 byte differs");
  const auto lines = matrix_lines(run, {}, false);
  EXPECT_THAT(lines, Contains("        #0     #1     #2"));
  EXPECT_THAT(lines, Contains(" #0      -   3.46  10.00"));
  EXPECT_THAT(lines, Contains(" #1  10.00      -  10.00"));
  EXPECT_THAT(lines, Contains(" #2      #  10.00      -"));
  EXPECT_THAT(matrix_lines(run, {}, true), Contains(" #0      -  27.65  80.00"));
}

TEST(PerfMatrixTerminal, ShowsManyRanksByTheirSlowestNic) {
  MatrixRun run = equal_run(5, 4);
  pair_of(run, 1, 6).bytes_per_second = 2e9;  // rank 0 to rank 1
  const auto lines = matrix_lines(run, {}, false);
  EXPECT_THAT(lines, Contains("GB/s from rank (row) to rank (column), of their slowest NICs"));
  EXPECT_THAT(lines, Contains(" 0      -   2.00  10.00  10.00  10.00"));
  EXPECT_THAT(unwrapped(lines), HasSubstr("slowest cells : 2.00 GB/s: rank 0 (n0 mlx5_1:1"));
}

TEST(PerfMatrixTerminal, ShowsTenthsOfTheTypicalRateWhereFiguresDoNotFit) {
  MatrixRun run = equal_run(30);
  pair_of(run, 0, 1).bytes_per_second = 0.55 * kRate;
  pair_of(run, 0, 2).bytes_per_second = 2 * kRate;
  fail_cell(pair_of(run, 0, 3), CellState::broken, "put: the peer is gone");
  const auto lines = matrix_lines(run, {}, false);
  EXPECT_THAT(lines, Contains("    0         10        20"));
  EXPECT_THAT(lines, Contains("  0 -59!" + std::string(26, '9')));
  EXPECT_THAT(lines, Contains(" 29 " + std::string(29, '9') + "-"));
}

TEST(PerfMatrixTerminal, NamesEveryBrokenRankAndProblem) {
  for (const std::uint32_t ranks : {4U, 12U, 30U, 70U}) {
    MatrixRun run = equal_run(ranks);
    for (std::uint32_t rank = 1; rank < ranks; rank += 2) {
      lose_rank(run, rank, CellState::unreachable, fmt::format("its rank {} ended", rank));
      run.broken.push_back({rank, fmt::format("n{}", rank), fmt::format("problem {}", rank)});
    }
    const std::string text = unwrapped(matrix_lines(run, {}, false));
    const std::string list = text.substr(text.find("broken ranks :"));
    for (const BrokenRank& broken : run.broken) {
      EXPECT_THAT(list, testing::ContainsRegex(fmt::format("[^0-9]{}[^0-9]", broken.rank)));
      if (run.broken.size() <= 16) {
        EXPECT_THAT(list, HasSubstr(fmt::format("rank {0} (n{0}): problem {0}", broken.rank)));
      }
    }
  }
}

TEST(PerfMatrixTerminal, NamesTheProblemOfEachPhase) {
  MatrixRun run = equal_run(6);
  fail_cell(pair_of(run, 0, 1), CellState::unreachable, "connect: no route to host");
  fail_cell(pair_of(run, 1, 2), CellState::broken, "put: the peer is gone");
  fail_cell(pair_of(run, 2, 3), CellState::corrupt, "verify: 3 of 8 bytes differ");
  fail_cell(run.all_at_once[0], CellState::broken, "put: retries exceeded");
  fail_cell(run.many_to_one[0], CellState::not_measured, "rank 1 did not get so far");
  const auto lines = matrix_lines(run, {}, false);
  const std::string text = unwrapped(lines);
  EXPECT_THAT(text,
              HasSubstr("1 cell, unreachable: rank 0 (n0 mlx5_0:1, gaudi2 0000:33:00.0) to rank "
                        "1 (n1 mlx5_0:1, gaudi2 0000:33:00.0): connect: no route to host"));
  EXPECT_THAT(text, HasSubstr("put: the peer is gone"));
  EXPECT_THAT(text, HasSubstr("verify: 3 of 8 bytes differ"));
  EXPECT_THAT(text, HasSubstr("all at once: 1 cell, broken"));
  EXPECT_THAT(text, HasSubstr("put: retries exceeded"));
  EXPECT_THAT(text, HasSubstr("many to one: 1 cell, not measured"));
  EXPECT_THAT(text, HasSubstr("rank 1 did not get so far"));
  EXPECT_THAT(text, HasSubstr("1 cell CORRUPT"));
  EXPECT_THAT(lines, Contains(HasSubstr("x: unreachable, !: broken, #: corrupt")));
}

TEST(PerfMatrixTerminal, GroupsTheCellsOfARankThatIsGone) {
  MatrixRun run = equal_run(5);
  lose_rank(run, 3, CellState::unreachable, "no route to n3");
  const std::string text = unwrapped(matrix_lines(run, {}, false));
  EXPECT_THAT(text, HasSubstr("8 cells, unreachable: all cells from and to rank 3 (n3): no route"));
  EXPECT_THAT(text, HasSubstr("slow : none"));
}

TEST(PerfMatrixTerminal, NamesSlowEndsAndPairs) {
  MatrixRun run = equal_run(5);
  slow_down(run, 2, 0.4);
  pair_of(run, 0, 1).bytes_per_second *= 0.5;
  const std::string text = unwrapped(matrix_lines(run, {}, false));
  EXPECT_THAT(text, HasSubstr("slow : n2 mlx5_0:1, gaudi2 0000:33:00.0 (rank 2): 0.40 of the "
                              "typical in its 8 cells as source and target"));
  EXPECT_THAT(text, HasSubstr("rank 0 (n0 mlx5_0:1, gaudi2 0000:33:00.0) to rank 1 (n1 mlx5_0:1, "
                              "gaudi2 0000:33:00.0): 5.00 GB/s, 0.50 of the typical: neither end"));
}

TEST(PerfMatrixTerminal, MakesForeignTextsPrintable) {
  std::mt19937_64 random(10);
  for (int round = 0; round < 100; ++round) {
    MatrixRun run = random_run(random);
    for (const auto& line : matrix_lines(run, {}, false)) {
      EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; })) << line;
    }
  }
}

TEST(PerfMatrixTerminal, SaysThatNothingWasMeasuredOrVerified) {
  MatrixRun run = planned_run(3, 1);
  run.verified = false;
  const std::string text = unwrapped(matrix_lines(run, {}, false));
  EXPECT_THAT(text, HasSubstr("pairs : 0 of 6 cells measured"));
  EXPECT_THAT(text, HasSubstr("6 cells, not measured: every cell"));
  EXPECT_THAT(text, Not(HasSubstr("slow :")));
  EXPECT_THAT(text, HasSubstr("NOT VERIFIED (--no-verify)"));
  EXPECT_FALSE(matrix_lines(MatrixRun{}, {}, false).empty());
}

}  // namespace
}  // namespace hbmwire::tools::perf::all
