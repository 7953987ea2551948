// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf_runs.hpp"
#include "tools/perf/comparison.hpp"

namespace hbmwire::tools::perf {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RunResult bandwidth_of_4k(double bytes_per_second, double noise) {
  RunResult run = write_bw_run();
  run.rows = {bandwidth_row(4096, bytes_per_second, noise)};
  return run;
}

RunResult latency_of_8(double typical_ns, double noise) {
  RunResult run = write_lat_run();
  run.rows = {latency_row(8, typical_ns, noise)};
  return run;
}

Change only_change(const RunResult& before, const RunResult& now) {
  const auto comparison = compare_runs(before, now);
  EXPECT_TRUE(comparison);
  EXPECT_EQ(comparison->changes.size(), 1U);
  return comparison->changes.at(0);
}

TEST(PerfComparison, ChangesWithinBothRunsNoiseAreNone) {
  const Change change = only_change(bandwidth_of_4k(10e9, 0.04), bandwidth_of_4k(9.3e9, 0.05));
  EXPECT_EQ(change.kind, Change::Kind::none);
  EXPECT_DOUBLE_EQ(change.noise, 1.04 * 1.05 - 1);
  EXPECT_NEAR(change.relative, -0.07, 1e-12);
}

TEST(PerfComparison, ChangesBeyondTheNoiseArePointedOut) {
  EXPECT_EQ(only_change(bandwidth_of_4k(10e9, 0.02), bandwidth_of_4k(9.3e9, 0.02)).kind,
            Change::Kind::worse);
  EXPECT_EQ(only_change(bandwidth_of_4k(10e9, 0.02), bandwidth_of_4k(10.7e9, 0.02)).kind,
            Change::Kind::better);
}

TEST(PerfComparison, ALongerTimeIsWorse) {
  EXPECT_EQ(only_change(latency_of_8(800, 0.01), latency_of_8(900, 0.01)).kind,
            Change::Kind::worse);
  EXPECT_EQ(only_change(latency_of_8(900, 0.01), latency_of_8(800, 0.01)).kind,
            Change::Kind::better);
}

TEST(PerfComparison, SteadyRunsStillDifferByTwoPercent) {
  EXPECT_EQ(only_change(bandwidth_of_4k(10e9, 0.001), bandwidth_of_4k(10.19e9, 0.001)).kind,
            Change::Kind::none);
  EXPECT_EQ(only_change(bandwidth_of_4k(10e9, 0.001), bandwidth_of_4k(10.21e9, 0.001)).kind,
            Change::Kind::better);
}

TEST(PerfComparison, RunsTooShortToTellMayDifferMore) {
  EXPECT_EQ(only_change(bandwidth_of_4k(10e9, 0), bandwidth_of_4k(12e9, 0)).kind,
            Change::Kind::none);
  EXPECT_EQ(only_change(bandwidth_of_4k(10e9, 0), bandwidth_of_4k(13e9, 0)).kind,
            Change::Kind::better);
}

TEST(PerfComparison, MuchWorseIsWorseInAnyNoise) {
  EXPECT_EQ(only_change(bandwidth_of_4k(10e9, 2), bandwidth_of_4k(0.1e9, 2)).kind,
            Change::Kind::worse);
}

TEST(PerfComparison, RefusesRunsOfDifferentTests) {
  const auto comparison = compare_runs(write_lat_run(), write_bw_run());
  ASSERT_FALSE(comparison);
  EXPECT_THAT(comparison.error().text, HasSubstr("is of write_lat, this one of write_bw"));
  EXPECT_EQ(comparison.error().exit_code, kExitUsage);
}

TEST(PerfComparison, NamesOtherConditions) {
  RunResult before = write_bw_run();
  before.local.memory = "host";
  before.parameters[1].value = 64;
  before.parameters.push_back({.label = "Post List", .key = "post_list", .value = 8});
  RunResult now = write_bw_run();
  now.emulated = true;
  const auto comparison = compare_runs(before, now);
  ASSERT_TRUE(comparison);
  EXPECT_THAT(comparison->differences,
              ElementsAre("emulated hardware: yes, before: no", "memory here: gaudi, before: host",
                          "TX depth: 128, before: 64", "Post List: none, before: 8"));
  EXPECT_THAT(compare_runs(now, now)->differences, IsEmpty());
}

TEST(PerfComparison, NamesSizesThatOnlyOneRunHas) {
  RunResult before = write_bw_run();
  before.rows.push_back(bandwidth_row(8192, 1e9));
  RunResult now = write_bw_run();
  now.rows.push_back(bandwidth_row(16384, 1e9));
  const auto comparison = compare_runs(before, now);
  ASSERT_TRUE(comparison);
  EXPECT_THAT(comparison->only_before, ElementsAre(8192U));
  EXPECT_THAT(comparison->only_now, ElementsAre(16384U));
  EXPECT_THAT(comparison_lines(*comparison, {}),
              Contains(HasSubstr("not in the saved run: 16 KiB")));
}

TEST(PerfComparison, LeavesOutRowsThatDidNotArrive) {
  RunResult now = write_bw_run();
  now.rows[0].verification.wrong_bytes = 1;
  const auto comparison = compare_runs(write_bw_run(), now);
  ASSERT_TRUE(comparison);
  EXPECT_THAT(comparison->changes, IsEmpty());
  EXPECT_THAT(comparison->only_before, ElementsAre(4096U));
}

TEST(PerfComparison, PrintsATable) {
  const auto comparison = compare_runs(bandwidth_of_4k(10e9, 0.01), bandwidth_of_4k(5e9, 0.01));
  ASSERT_TRUE(comparison);
  const auto lines = comparison_lines(*comparison, {});
  EXPECT_THAT(lines,
              Contains(" 4096       10.00 GB/s     5.00 GB/s      -50.0%     2.0%      WORSE"));
  EXPECT_THAT(lines, Contains(" 1 of 1 sizes changed beyond the noise: 0 better, 1 worse"));
  EXPECT_EQ(to_json(*comparison)["changes"][0]["better"], false);
}

}  // namespace
}  // namespace hbmwire::tools::perf
