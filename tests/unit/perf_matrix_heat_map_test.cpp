// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf_matrices.hpp"
#include "tools/perf/all/presentation.hpp"
#include "xml_check.hpp"

namespace hbmwire::tools::perf::all {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PerfHeatMap, IsWellFormedWithASquareForEachCell) {
  for (const std::uint32_t ranks : {0U, 1U, 2U, 3U, 16U, 64U, 70U, 256U}) {
    const MatrixRun run = equal_run(ranks);
    const std::string svg = heat_map_svg(run, false);
    EXPECT_EQ(XmlCheck(svg).problem(), "") << ranks;
    EXPECT_EQ(count_of(svg, "</title></rect>"), run.pairs.size());
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
}

TEST(PerfHeatMap, LabelsAllOf64EndsOnBothAxes) {
  const std::string svg = heat_map_svg(equal_run(64), false);
  for (int rank = 0; rank < 64; ++rank)
    EXPECT_EQ(count_of(svg, fmt::format(">{0} n{0} mlx5_0:1 gaudi</text>", rank)), 2U) << rank;
}

TEST(PerfHeatMap, TakesOddNamesAsText) {
  MatrixRun run = equal_run(3);
  run.launcher = "</title><script>";
  run.ends[0].host = "</text><script>&\"\x01\xff";
  run.ends[1].nic = "<&>'\"]]>";
  run.ends[2].memory = std::string("a\0b", 3);
  fail_cell(run.pairs[0], CellState::broken, "</title><script>alert(1)</script>");
  const std::string svg = heat_map_svg(run, false);
  EXPECT_EQ(XmlCheck(svg).problem(), "");
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  std::mt19937_64 random(7);
  for (int round = 0; round < 100; ++round)
    EXPECT_EQ(XmlCheck(heat_map_svg(random_run(random), true)).problem(), "");
}

TEST(PerfHeatMap, ShowsFigureOrProblemAsATooltip) {
  MatrixRun run = equal_run(2);
  fail_cell(run.pairs[1], CellState::corrupt, "verify: 3 of 8 bytes differ");
  const std::string svg = heat_map_svg(run, true);
  EXPECT_THAT(svg, HasSubstr("<title>rank 0 (n0 mlx5_0:1, gaudi2 0000:33:00.0) to rank 1 (n1 "
                             "mlx5_0:1, gaudi2 0000:33:00.0): 80.00 Gb/s, 80% of the slower "
                             "link</title>"));
  EXPECT_THAT(svg, HasSubstr(": corrupt: verify: 3 of 8 bytes differ</title>"));
}

TEST(PerfHeatMap, HasAScaleFrom0ToTheFastestCell) {
  MatrixRun run = equal_run(3);
  pair_of(run, 0, 1).bytes_per_second = 2 * kRate;
  const std::string svg = heat_map_svg(run, false);
  for (const char* mark : {"0", "5.00 GB/s", "10.00 GB/s", "15.00 GB/s", "20.00 GB/s"})
    EXPECT_THAT(svg, HasSubstr(fmt::format("font-size=\"11\">{}</text>", mark)));
  EXPECT_EQ(count_of(svg, "fill=\"#f8e43c\""), 1U);  // the brightest colour is the fastest cell's
}

TEST(PerfHeatMap, SaysThatNothingWasMeasured) {
  const std::string svg = heat_map_svg(planned_run(3, 1), false);
  EXPECT_EQ(XmlCheck(svg).problem(), "");
  EXPECT_THAT(svg, HasSubstr("typical not measured"));
  EXPECT_THAT(svg, Not(HasSubstr(">0.00")));  // a scale of nothing
}

TEST(PerfHeatMap, TellsWhatIsEmulatedAndUnverified) {
  MatrixRun run = equal_run(2);
  run.emulated = true;
  run.verified = false;
  const std::string svg = heat_map_svg(run, false);
  EXPECT_THAT(svg, HasSubstr("emulated hardware"));
  EXPECT_THAT(svg, HasSubstr("NOT VERIFIED"));
}

}  // namespace
}  // namespace hbmwire::tools::perf::all
