// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/memory_domain.hpp"

#include "perf_runs.hpp"
#include "tools/perf/chart.hpp"
#include "tools/perf/verdict.hpp"
#include "xml_check.hpp"

namespace hbmwire::tools::perf {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(XmlCheck, FindsWhatIsNotWellFormed) {
  EXPECT_EQ(XmlCheck("<a x=\"1\"><b/>&amp;</a>").problem(), "");
  for (const char* bad : {"", "<a>", "<a></b>", "<a>&</a>", "<a x=1/>", "<a x=\"<\"/>", "<a/><a/>",
                          "x<a/>", "<a x=\"1\" x=\"2\"/>", "<a"}) {
    EXPECT_NE(XmlCheck(bad).problem(), "") << bad;
  }
}

RunResult judged(RunResult run) {
  run.verdict = judge(run).verdict;
  return run;
}

TEST(PerfChart, ShowsAverageAndPeakAndTheLimit) {
  const Chart chart = chart_of(judged(sweep_run()), {});
  ASSERT_EQ(chart.series.size(), 3U);
  EXPECT_EQ(chart.unit, "GB/s");
  EXPECT_EQ(chart.series[0].role, Series::Role::main);
  EXPECT_EQ(chart.series[0].points.size(), 23U);
  EXPECT_EQ(chart.series[2].role, Series::Role::limit);
  EXPECT_DOUBLE_EQ(chart.series[2].points[0].value, 12.5);
  EXPECT_EQ(chart_of(sweep_run(), {.gigabits = true}).unit, "Gb/s");
}

TEST(PerfChart, ShowsLatencyByItsLogarithm) {
  const Chart chart = chart_of(write_lat_run(), {});
  EXPECT_TRUE(chart.log_values);
  EXPECT_EQ(chart.unit, "us");
  EXPECT_THAT(chart.series[0].points, ElementsAre(Point{2, 0.83}, Point{65536, 9.123}));
}

TEST(PerfChart, LeavesOutWhatDidNotArrive) {
  RunResult run = write_bw_run();
  run.rows.push_back(bandwidth_row(8192, 7e9));
  run.rows[0].verification.wrong_bytes = 1;
  EXPECT_THAT(chart_of(run, {}).series[0].points, ElementsAre(Point{8192, 7}));
}

TEST(PerfAxis, HasRoundMarksAroundAllValues) {
  EXPECT_THAT(value_axis(chart_of(judged(sweep_run()), {})).marks, ElementsAre(0, 5, 10, 15));
  EXPECT_THAT(value_axis(chart_of(write_lat_run(), {})).marks, ElementsAre(0.1, 1, 10, 100));
  for (const double greatest : {1e-9, 0.3, 1.0, 7.0, 99.0, 1e6}) {
    RunResult run = write_bw_run();
    run.rows = {bandwidth_row(4096, greatest * 1e9 / 1.1)};
    run.local.limits.clear();
    run.remote.limits.clear();
    const Axis axis = value_axis(chart_of(run, {}));
    EXPECT_EQ(axis.marks.front(), 0);
    EXPECT_GE(axis.marks.back(), greatest * (1 - 1e-9)) << greatest;
    EXPECT_LE(axis.marks.back(), greatest * 2.1) << greatest;
    EXPECT_LE(axis.marks.size(), 7U) << greatest;
  }
}

TEST(PerfAxis, LeavesFarLimitsOutOfSight) {
  RunResult run = write_bw_run();
  run.local.limits = {link_limit(8000)};
  run.remote.limits.clear();
  const Chart chart = chart_of(judged(run), {});
  ASSERT_EQ(chart.series.size(), 3U);
  EXPECT_EQ(value_axis(chart).marks.back(), 8);
  EXPECT_FALSE(value_axis(chart).holds(1000));
  EXPECT_THAT(svg_of(chart), HasSubstr("points=\"\""));
}

TEST(PerfAxis, OfSizesIsLogarithmic) {
  const Axis axis = size_axis(chart_of(sweep_run(), {}));
  EXPECT_EQ(axis.place(2), 0);
  EXPECT_EQ(axis.place(8 << 20), 1);
  EXPECT_DOUBLE_EQ(axis.place(4096), 0.5);
}

TEST(PerfAxis, NamesSizesShortly) {
  EXPECT_EQ(short_size_text(2), "2");
  EXPECT_EQ(short_size_text(1000), "1000");
  EXPECT_EQ(short_size_text(4096), "4K");
  EXPECT_EQ(short_size_text(8 << 20), "8M");
}

TEST(PerfSvg, IsWellFormedWithAxesAndUnits) {
  const RunResult sweep = judged(sweep_run());
  for (const RunResult& run : {sweep, write_lat_run(), write_bw_run(), RunResult{}}) {
    const std::string svg = svg_of(chart_of(run, {}, &sweep));
    EXPECT_EQ(XmlCheck(svg).problem(), "") << svg;
    EXPECT_THAT(svg, HasSubstr("message size [bytes]"));
    EXPECT_THAT(svg,
                HasSubstr(run.measure == Measure::latency ? "latency [us]" : "bandwidth [GB/s]"));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
  EXPECT_THAT(svg_of(chart_of(sweep, {})), HasSubstr(">8M</text>"));
}

TEST(PerfSvg, TellsWhatIsEmulatedAndUnverified) {
  RunResult run = judged(sweep_run());
  run.emulated = true;
  run.verified = false;
  const std::string svg = svg_of(chart_of(run, {}));
  EXPECT_THAT(svg, HasSubstr("emulated hardware"));
  EXPECT_THAT(svg, HasSubstr("NOT VERIFIED"));
}

TEST(PerfSvg, TakesForeignTextsAsText) {
  RunResult run = judged(sweep_run());
  run.title = "</text><script>&\"\x01\xff";
  run.remote.memory = "<&>";
  const std::string svg = svg_of(chart_of(run, {}));
  EXPECT_EQ(XmlCheck(svg).problem(), "");
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
}

TEST(PerfTerminalPlot, FitsItsColumns) {
  const RunResult sweep = judged(sweep_run());
  for (const unsigned columns : {20U, 40U, 80U, 100U, 300U}) {
    const auto lines = terminal_plot(chart_of(sweep, {}), columns);
    ASSERT_FALSE(lines.empty());
    for (std::size_t i = 0; i + 1 < lines.size(); ++i)  // the key may be longer
      EXPECT_LE(lines[i].size(), columns) << lines[i];
  }
}

TEST(PerfTerminalPlot, RisesFromLeftToRight) {
  RunResult run = write_bw_run();
  run.rows = {bandwidth_row(2, 1e9), bandwidth_row(4096, 5e9), bandwidth_row(8 << 20, 10e9)};
  const auto lines = terminal_plot(chart_of(run, {}), 80);
  std::vector<std::size_t> stars;
  for (const auto& line : lines) {
    if (const auto at = line.find('*');
        at != std::string::npos && line.find("average") == std::string::npos)
      stars.push_back(at);
  }
  ASSERT_EQ(stars.size(), 3U);
  EXPECT_GT(stars[0], stars[1]);  // the uppermost line comes first
  EXPECT_GT(stars[1], stars[2]);
  EXPECT_THAT(lines, Contains(HasSubstr("bandwidth [GB/s]")));
  EXPECT_THAT(lines, Contains(HasSubstr("4K")));
}

TEST(PerfTerminalPlot, AnEmptyRunHasNoPlot) {
  EXPECT_THAT(terminal_plot(chart_of(RunResult{}, {}), 80), IsEmpty());
  EXPECT_FALSE(terminal_plot(chart_of(write_bw_run(), {}), 80).empty());
}

}  // namespace
}  // namespace hbmwire::tools::perf
