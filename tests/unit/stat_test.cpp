// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include "tools/stat/json.hpp"
#include "tools/stat/prometheus.hpp"
#include "tools/stat/rows.hpp"
#include "tools/stat/table.hpp"

namespace hbmwire::tools::stats {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
constexpr TransferLabels kPut{.kind = TransferKind::put,
                              .path = Path::zero_copy,
                              .local = MemoryType::gaudi,
                              .remote = MemoryType::gaudi};

TransferCounters series(const TransferLabels& labels, const std::string& nic,
                        const std::string& peer, std::uint64_t operations, std::uint64_t bytes) {
  return {.labels = labels, .nic = nic, .peer = peer, .operations = operations, .bytes = bytes};
}

ProcessSample process_of(std::uint32_t id) {
  ProcessSample process;
  process.now.process = id;
  process.now.program = "trainer";
  process.now.since = std::chrono::system_clock::time_point(1'700'000'000'500'000'000ns);
  process.now.counters.transfers = {series(kPut, "mlx5_0", "10.0.0.1:7000", 10, 1000),
                                    series(kPut, "mlx5_1", "10.0.0.1:7000", 20, 2000),
                                    series(kPut, "mlx5_1", "10.0.0.2:7000", 30, 3000)};
  process.seconds = 2;
  return process;
}

Sample sample_of(std::vector<ProcessSample> processes) {
  return {.time = {}, .processes = std::move(processes), .unreadable = {}, .nics = {}};
}

TransferTimesHistogram times_of(std::vector<std::pair<std::size_t, std::uint64_t>> buckets) {
  TransferTimesHistogram times{.labels = kPut, .transfers = {}, .sum = 1500ns};
  for (const auto& [bucket, count] : buckets) times.transfers[bucket] = count;
  return times;
}

TEST(StatRows, AreSplitByTheRequestedColumns) {
  const ProcessSample process = process_of(1);
  EXPECT_EQ(rows_of(process, SplitBy::path).size(), 1U);
  EXPECT_EQ(rows_of(process, SplitBy::path)[0].bytes, 6000U);
  const auto by_nic = rows_of(process, SplitBy::nic);
  ASSERT_EQ(by_nic.size(), 2U);
  EXPECT_EQ(by_nic[1].nic, "mlx5_1");
  EXPECT_EQ(by_nic[1].operations, 50U);
  const auto by_peer = rows_of(process, SplitBy::peer);
  ASSERT_EQ(by_peer.size(), 2U);
  EXPECT_EQ(by_peer[0].peer, "10.0.0.1:7000");
  EXPECT_EQ(by_peer[0].bytes, 3000U);
  EXPECT_EQ(rows_of(process, SplitBy::all).size(), 3U);
}

TEST(StatRows, HaveRatesOfTheTimeOfTheSample) {
  ProcessSample process = process_of(1);
  EXPECT_DOUBLE_EQ(rows_of(process, SplitBy::path)[0].bytes_per_second, 3000);
  process.before = process.now.counters;
  process.before->transfers.pop_back();
  EXPECT_DOUBLE_EQ(rows_of(process, SplitBy::path)[0].bytes_per_second, 1500);
  EXPECT_DOUBLE_EQ(rows_of(process, SplitBy::path)[0].operations_per_second, 15);
  process.seconds = 0;
  EXPECT_DOUBLE_EQ(rows_of(process, SplitBy::path)[0].bytes_per_second, 0);
}

TEST(StatTimes, ATimeIsTheMiddleOfItsBucket) {
  EXPECT_EQ(quantile(times_of({}), 0.5), 0ns);
  EXPECT_EQ(quantile(times_of({{0, 2}}), 0.5), 64ns);
  EXPECT_EQ(quantile(times_of({{3, 1}}), 0.5), 768ns);
  EXPECT_EQ(quantile(times_of({{0, 50}, {4, 50}}), 0.99), 2028ns);
  EXPECT_EQ(quantile(times_of({{kTimeBuckets - 1, 1}}), 0.5), time_bucket_bound(kTimeBuckets - 2));
  EXPECT_EQ(quantile(times_of({{0, 99}, {1, 1}}), 1), 256ns);
}

TEST(StatTimes, OnlyTimesSinceTheSampleBeforeCount) {
  ProcessSample process = process_of(1);
  process.now.counters.times = {times_of({{0, 10}, {9, 5}})};
  ASSERT_EQ(stats::times_of(process).size(), 1U);
  EXPECT_EQ(stats::times_of(process)[0].count, 15U);
  process.before = process.now.counters;
  EXPECT_TRUE(stats::times_of(process).empty());
  process.before->times = {times_of({{0, 10}})};
  ASSERT_EQ(stats::times_of(process).size(), 1U);
  EXPECT_EQ(stats::times_of(process)[0].count, 5U);
  EXPECT_GT(stats::times_of(process)[0].median, 32us);
}

TEST(StatTable, NamesPathsMemoriesAndPeers) {
  ProcessSample process = process_of(4711);
  Counters& counters = process.now.counters;
  counters.failures = {{.code = Errc::timed_out, .nic = "mlx5_0", .peer = "a", .operations = 2},
                       {.code = Errc::timed_out, .nic = "mlx5_0", .peer = "b", .operations = 1},
                       {.code = Errc::cancelled, .nic = "mlx5_0", .peer = "a", .operations = 7}};
  counters.started = 70;
  counters.credit_waits = 1;
  counters.endpoints = 1;
  counters.registrations = {.hits = 5, .misses = 1, .registrations = 3, .live = 2};
  const auto lines = table_lines(sample_of({process}), SplitBy::path);
  EXPECT_EQ(lines[0], "PROCESS PROGRAM KIND PATH      MEMORY       OPERATIONS BYTES      RATE");
  EXPECT_EQ(lines[1], "   4711 trainer put  zero_copy gaudi->gaudi         60  6000 0.0 MiB/s");
  EXPECT_THAT(lines, Contains("  failed         timed_out 3, cancelled 7"));
  EXPECT_THAT(lines,
              Contains("  transfers      70 begun, 0 under way, 0 queued, 1 wait for credit"));
  EXPECT_THAT(lines,
              Contains("  connections    1 endpoint, 0 failed, 0 attempts to connect again"));
  EXPECT_THAT(lines, Contains(HasSubstr("2 now (0), 3 ever; look-ups: 5 hits, 1 registered anew")));
}

TEST(StatTable, FitsHundredColumnsWhateverTheCountsAre) {
  ProcessSample process = process_of(4'194'304);
  process.now.program = std::string(15, 'p');
  process.now.counters.transfers = {series({.kind = TransferKind::immediate,
                                            .path = Path::shared_memory,
                                            .local = MemoryType::dmabuf,
                                            .remote = MemoryType::dmabuf},
                                           "mlx5_0", "10.0.0.1:7000", kMost / 1'000'000'000'0,
                                           9'999'999'999)};
  process.now.counters.transfers.push_back(series(kPut, "mlx5_0", "p", 1, 1ULL << 62U));
  process.seconds = 1e6;
  std::size_t widest = 0;
  for (const std::string& line : table_lines(sample_of({process}), SplitBy::path))
    widest = std::max(widest, line.size());
  EXPECT_LE(widest, 100U);
}

TEST(StatTable, MarksEndedProcesses) {
  ProcessSample process = process_of(7);
  process.ended = true;
  EXPECT_THAT(table_lines(sample_of({process}), SplitBy::path), Contains("7 trainer (ended)"));
}

TEST(StatTable, ShowsOnlyErrorsOfNics) {
  Sample sample = sample_of({process_of(1)});
  sample.nics = {{.now = {.nic = "mlx5_0", .name = "port_xmit_data", .value = 99}, .before = {}},
                 {.now = {.nic = "mlx5_0", .name = "out_of_buffer", .value = 5}, .before = 3},
                 {.now = {.nic = "mlx5_0", .name = "link_downed", .value = 1}, .before = 1},
                 {.now = {.nic = "mlx5_0", .name = "symbol_error", .value = 0}, .before = 0}};
  const auto lines = table_lines(sample, SplitBy::path);
  EXPECT_EQ(lines.back(), "  out_of_buffer 5 (+2), link_downed 1");
  sample.nics.resize(1);
  for (const std::string& line : table_lines(sample, SplitBy::path))
    EXPECT_THAT(line, Not(HasSubstr("NIC mlx5_0")));
}

TEST(StatTable, SaysThatNothingPublishes) {
  EXPECT_THAT(table_lines(sample_of({}), SplitBy::path),
              testing::ElementsAre("no process publishes its counters (HBMWIRE_STATS=yes)"));
}

TEST(StatText, HasUnits) {
  EXPECT_EQ(bytes_text(0), "0");
  EXPECT_EQ(bytes_text(9'999'999'999), "9999999999");
  EXPECT_EQ(bytes_text(std::uint64_t{1} << 40U), "1024.0 GiB");
  EXPECT_EQ(bytes_text(kMost), "16.0 EiB");
  EXPECT_EQ(rate_text(0), "-");
  EXPECT_EQ(rate_text(1 << 20U), "1.0 MiB/s");
  EXPECT_EQ(rate_text(1e12), "931.3 GiB/s");
  EXPECT_EQ(time_text(999ns), "999 ns");
  EXPECT_EQ(time_text(1500ns), "1.5 us");
  EXPECT_EQ(time_text(2s), "2.0 s");
}

TEST(StatPrometheus, EscapesLabels) {
  ProcessSample process = process_of(1);
  process.now.program = "a\"b\\c\nd";
  EXPECT_THAT(prometheus_text(sample_of({process})), HasSubstr(R"(program="a\"b\\c\nd")"));
}

TEST(StatPrometheus, HasCumulativeBucketsAndExactSeconds) {
  ProcessSample process = process_of(1);
  process.now.counters.times = {times_of({{0, 2}, {1, 3}, {kTimeBuckets - 1, 1}})};
  const std::string text = prometheus_text(sample_of({process}));
  EXPECT_THAT(text, HasSubstr(R"(le="1.28e-07"} 2)"));
  EXPECT_THAT(text, HasSubstr(R"(le="2.56e-07"} 5)"));
  EXPECT_THAT(text, HasSubstr(R"(le="+Inf"} 6)"));
  EXPECT_THAT(text,
              HasSubstr("_sum{process=\"1\",program=\"trainer\",kind=\"put\",path=\"zero_copy\","
                        "local=\"gaudi\",remote=\"gaudi\"} 0.000001500\n"));
  EXPECT_THAT(text, HasSubstr("} 1700000000.500000000\n"));
}

TEST(StatPrometheus, HasOneProcessOfEachId) {
  ProcessSample ended = process_of(5);
  ended.ended = true;
  ended.now.program = "before";
  const std::string both = prometheus_text(sample_of({ended, process_of(5)}));
  EXPECT_THAT(both, Not(HasSubstr("before")));
  EXPECT_THAT(both, HasSubstr("hbmwire_processes 1\n"));
  const std::string alone = prometheus_text(sample_of({ended}));
  EXPECT_THAT(alone, HasSubstr("hbmwire_process_running{process=\"5\",program=\"before\"} 0\n"));
  EXPECT_THAT(alone, HasSubstr("hbmwire_processes 0\n"));
}

TEST(StatPrometheus, HasBytesOfNicsWhereTheyCountWords) {
  Sample sample = sample_of({process_of(1)});
  sample.nics = {{.now = {.nic = "mlx5_0", .name = "port_xmit_data", .value = 25}, .before = {}},
                 {.now = {.nic = "mlx5_0", .name = "out_of_buffer", .value = 5}, .before = {}},
                 {.now = {.nic = "mlx5_0", .name = "lifespan", .value = 10}, .before = {}}};
  const std::string text = prometheus_text(sample);
  EXPECT_THAT(text,
              HasSubstr("hbmwire_nic_transmitted_bytes_total{nic=\"mlx5_0\",port=\"1\"} 100\n"));
  EXPECT_THAT(text,
              HasSubstr("nic_errors_total{nic=\"mlx5_0\",port=\"1\",counter=\"out_of_buffer\"} 5"));
  EXPECT_THAT(text, HasSubstr("nic_reading{nic=\"mlx5_0\",port=\"1\",counter=\"lifespan\"} 10"));
}

TEST(StatJson, HasExactCountsAndNullForTheUnknown) {
  ProcessSample process = process_of(1);
  process.now.counters.transfers = {series({.kind = TransferKind::send}, "", "p", 3, kMost)};
  const Json json = to_json(sample_of({process}));
  const Json& one = json["processes"][0]["transfers"][0];
  EXPECT_EQ(one["bytes"], kMost);
  EXPECT_TRUE(one["remote"].is_null());
  EXPECT_EQ(one["path"], "host");
  EXPECT_EQ(json["processes"][0]["ended"], false);
}

}  // namespace
}  // namespace hbmwire::tools::stats
