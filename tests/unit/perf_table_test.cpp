// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "hbmwire/low_level/connection.hpp"

#include "perf_runs.hpp"
#include "tools/perf/table.hpp"
#include "tools/perf/verdict.hpp"

namespace hbmwire::tools::perf {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr Style kMebi{};
constexpr Style kGiga{.gigabits = true};

// Splits like awk.
std::vector<std::string> fields(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> all;
  for (std::string field; in >> field;) all.push_back(field);
  return all;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const auto& line : lines) all += line + "\n";
  return all;
}

TEST(PerfTable, HasPerftestsHeadlines) {
  EXPECT_THAT(headline_text(Measure::bandwidth, kMebi),
              StartsWith(" #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   "
                         "MsgRate[Mpps]"));
  EXPECT_THAT(headline_text(Measure::bandwidth, kGiga),
              StartsWith(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   "
                         "MsgRate[Mpps]"));
  EXPECT_THAT(headline_text(Measure::latency, kMebi),
              StartsWith(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    "
                         "t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% "
                         "percentile[usec] "));
}

TEST(PerfTable, HasPerftestsColumnsInMebibytes) {
  const Row row = bandwidth_row(65536, 1024.0 * (1 << 20));
  EXPECT_THAT(
      fields(row_text(row, Measure::bandwidth, kMebi)),
      ElementsAre("65536", "5000", "1126.40", "1024.00", "0.016384", "100.0", "12.5", "verified"));
}

TEST(PerfTable, HasPerftestsColumnsInGigabits) {
  const Row row = bandwidth_row(65536, 12.5e9);
  const auto all = fields(row_text(row, Measure::bandwidth, kGiga));
  ASSERT_GE(all.size(), 5U);
  EXPECT_EQ(all[2], "110.00");
  EXPECT_EQ(all[3], "100.00");
}

TEST(PerfTable, KeepsDigitsOfSlowRates) {
  const auto all = fields(row_text(bandwidth_row(2, 2e6), Measure::bandwidth, kGiga));
  ASSERT_GE(all.size(), 5U);
  EXPECT_EQ(all[3], "0.016000");
}

TEST(PerfTable, HasPerftestsLatencies) {
  EXPECT_THAT(fields(row_text(latency_row(8, 1000), Measure::latency, kMebi)),
              ElementsAre("8", "1000", "0.900", "20.000", "1.000", "1.100", "0.200", "2.000",
                          "10.000", "-", "-", "verified"));
}

TEST(PerfTable, ValuesStandBelowTheirColumns) {
  const std::string headline = headline_text(Measure::bandwidth, kMebi);
  const std::string row = row_text(bandwidth_row(4096, 1e9), Measure::bandwidth, kMebi);
  EXPECT_EQ(row.find("953.67"), headline.find("BW average"));
  EXPECT_EQ(row.find("verified"), headline.find("data"));
}

TEST(PerfTable, ShowsNoFigureOfBytesThatDidNotArrive) {
  Row row = bandwidth_row(4096, 1e9);
  row.verification.wrong_bytes = 1;
  EXPECT_THAT(fields(row_text(row, Measure::bandwidth, kMebi)),
              ElementsAre("4096", "5000", "-", "-", "-", "100.0", "12.5", "WRONG"));
  row = bandwidth_row(4096, 1e9);
  row.verification.arrivals -= 1;
  EXPECT_THAT(row_text(row, Measure::bandwidth, kMebi), HasSubstr("WRONG"));
  row = latency_row(4096, 900);
  row.verification.slots = 0;  // no byte was compared
  EXPECT_THAT(fields(row_text(row, Measure::latency, kMebi)), Not(Contains("0.900")));
}

TEST(PerfTable, SaysThatNothingWasVerified) {
  RunResult run = write_bw_run();
  run.verified = false;
  run.rows[0].verification = {.wanted = false, .problem = ""};
  EXPECT_THAT(row_text(run.rows[0], Measure::bandwidth, kMebi), HasSubstr("NOT VERIFIED"));
  EXPECT_THAT(joined(closing_lines(run, kMebi)), HasSubstr("NOT VERIFIED (--no-verify)"));
}

TEST(PerfTable, HasABanner) {
  RunResult run = write_bw_run();
  run.emulated = true;
  const std::string banner = banner_text(run);
  EXPECT_THAT(banner, HasSubstr("RDMA_Write BW Test (emulated hardware)"));
  EXPECT_THAT(banner, HasSubstr(" Number of qps   : 1"));
  EXPECT_THAT(banner, HasSubstr(" Connection type : RC"));
  EXPECT_THAT(banner, HasSubstr("mlx5_1:1, gaudi memory"));
}

TEST(PerfTable, EndsWithRegistrationPathAndVerdict) {
  RunResult run = write_bw_run();
  run.local.explanation = {"not by zero-copy dma-buf: refused"};
  run.verdict = judge(run).verdict;
  const std::string closing = joined(closing_lines(run, kGiga));
  EXPECT_THAT(closing, HasSubstr("here 1 MiB in 123 us"));
  EXPECT_THAT(closing, HasSubstr("zero-copy dma-buf, NIC and device: PIX"));
  EXPECT_THAT(closing, HasSubstr("not by zero-copy dma-buf: refused"));
  EXPECT_THAT(closing,
              HasSubstr("50.0% of what applies, the link of mlx5_0:1 here: 50.00 Gb/s of 100.00 "
                        "Gb/s, at 4 KiB"));
  run.verdict.reset();
  run.why_no_verdict = "neither is known";
  EXPECT_THAT(joined(closing_lines(run, kGiga)), HasSubstr("none: neither is known"));
}

TEST(PerfTable, MergesLinesOfNeighbours) {
  RunResult run = write_bw_run();
  run.rows = {bandwidth_row(2, 1e9), bandwidth_row(4, 1e9), bandwidth_row(65536, 1e9)};
  run.rows[0].path = run.rows[1].path = "eager";
  run.rows[2].path = "direct";
  const std::string closing = joined(closing_lines(run, kMebi));
  EXPECT_THAT(closing, HasSubstr("2 bytes to 4 bytes: eager"));
  EXPECT_THAT(closing, HasSubstr("64 KiB: direct"));
}

TEST(PerfTable, SaysThatAShortMessageIsNotBound) {
  RunResult run = write_lat_run();
  run.rows.pop_back();
  run.verdict = judge(run).verdict;
  EXPECT_THAT(joined(closing_lines(run, kMebi)), HasSubstr("not bound by the link of mlx5_0:1"));
}

TEST(PerfTable, PrintsNothingForeignAsItIs) {
  RunResult run = write_bw_run();
  run.remote.host = "\x1b[31mred";
  run.remote.explanation = {"\x1b[2J"};
  EXPECT_THAT(banner_text(run), Not(HasSubstr("\x1b")));
  EXPECT_THAT(joined(closing_lines(run, kMebi)), Not(HasSubstr("\x1b")));
}

TEST(PerfVerdict, GoesByTheLeastLimitOfBothSides) {
  RunResult run = write_bw_run();
  run.remote.limits.push_back(
      {.kind = Limit::Kind::pcie, .bytes_per_second = 7.8e9, .what = "PCIe of mlx5_1"});
  const auto verdict = judge(run).verdict;
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->limit.kind, Limit::Kind::pcie);
  EXPECT_EQ(verdict->limit.what, "the PCIe of mlx5_1 there");
  EXPECT_DOUBLE_EQ(verdict->share, 6.25 / 7.8);
}

TEST(PerfVerdict, TakesTheRowThatCameClosest) {
  const auto verdict = judge(sweep_run()).verdict;
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->size_bytes, 8U << 20);
}

TEST(PerfVerdict, EmulatedHardwareUsesTheLimitOfTheCopy) {
  RunResult run = write_bw_run();
  run.emulated = true;
  const auto verdict = judge(run).verdict;
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->limit.kind, Limit::Kind::memcpy);
  EXPECT_DOUBLE_EQ(verdict->share, 6.25 / 60);
  run.rows[0].memcpy_bytes_per_second = 0;
  EXPECT_FALSE(judge(run).verdict);
}

// More than 100 % of a limit is impossible, so the presumed limit is no limit.
TEST(PerfVerdict, IsNotGivenWhereMoreWasReachedThanTheLimit) {
  RunResult run = write_bw_run();
  run.emulated = true;
  run.rows[0].memcpy_bytes_per_second = 6.25e9 / 1.04;
  EXPECT_TRUE(judge(run).verdict);
  run.rows[0].memcpy_bytes_per_second = 6.25e9 / 21.457;
  EXPECT_FALSE(judge(run).verdict);
  EXPECT_THAT(
      judge(run).why_none,
      HasSubstr("the limit is not known: one memcpy by one CPU was taken for it, 0.29 GB/s, "
                "and 6.25 GB/s were reached, at 4 KiB"));
}

TEST(PerfVerdict, BothDirectionsMayUseTheLimitTwice) {
  RunResult run = write_bw_run();
  run.bidirectional = true;
  EXPECT_DOUBLE_EQ(judge(run).verdict->share, 0.25);
}

TEST(PerfVerdict, ALatencyTestUsesTheRateOfSingleMessages) {
  RunResult run = write_lat_run();
  const auto verdict = judge(run).verdict;
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->size_bytes, 65536U);
  EXPECT_NEAR(verdict->reached_bytes_per_second, 65536 / 9123e-9, 1);
}

TEST(PerfVerdict, IsNotGivenWithoutRows) {
  RunResult run = write_bw_run();
  run.rows[0].verification.wrong_bytes = 1;
  EXPECT_FALSE(judge(run).verdict);
  run = write_bw_run();
  run.local.limits.clear();
  run.remote.limits.clear();
  EXPECT_FALSE(judge(run).verdict);
}

TEST(PerfTexts, ChooseTheirUnits) {
  EXPECT_EQ(duration_text(830), "830 ns");
  EXPECT_EQ(duration_text(12'345), "12.3 us");
  EXPECT_EQ(duration_text(4'560'000), "4.56 ms");
  EXPECT_EQ(duration_text(1.25e9), "1.25 s");
  EXPECT_EQ(speed_text(12.5e9, kMebi), "12.50 GB/s");
  EXPECT_EQ(speed_text(12.5e9, kGiga), "100.00 Gb/s");
  EXPECT_EQ(speed_text(5.6e6, kMebi), "5.60 MB/s");
  EXPECT_EQ(speed_text(5.6e6, kGiga), "44.80 Mb/s");
}

}  // namespace
}  // namespace hbmwire::tools::perf
