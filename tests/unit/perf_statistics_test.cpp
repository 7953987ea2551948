// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "tools/perf/statistics.hpp"

namespace hbmwire::tools::perf {
namespace {

Latency latency_of(const std::vector<std::uint64_t>& samples, double ns_per_tick = 1) {
  LatencySamples all;
  for (const auto sample : samples) all.add(sample);
  return all.summary(ns_per_tick);
}

TEST(PerfLatency, IsZeroWithoutSamples) {
  const Latency none = LatencySamples().summary(1);
  EXPECT_EQ(none.min_ns, 0);
  EXPECT_EQ(none.typical_ns, 0);
  EXPECT_EQ(none.stdev_ns, 0);
}

TEST(PerfLatency, KnowsAHundredSamples) {
  std::vector<std::uint64_t> samples(100);
  std::iota(samples.rbegin(), samples.rend(), 1U);  // 100, 99, ... 1
  const Latency latency = latency_of(samples);
  EXPECT_EQ(latency.min_ns, 1);
  EXPECT_EQ(latency.max_ns, 100);
  EXPECT_DOUBLE_EQ(latency.typical_ns, 50.5);
  EXPECT_DOUBLE_EQ(latency.average_ns, 50.5);
  EXPECT_NEAR(latency.stdev_ns, std::sqrt((100.0 * 100 - 1) / 12), 1e-9);
  EXPECT_EQ(latency.percentile_99_ns, 99);
  EXPECT_EQ(latency.percentile_99_9_ns, 100);
}

TEST(PerfLatency, ChangesUnitsAndHalvesRoundTrips) {
  const Latency latency = latency_of({8, 2, 4}, 0.5 / 2);  // ticks of 0.5 ns, both ways
  EXPECT_DOUBLE_EQ(latency.min_ns, 0.5);
  EXPECT_DOUBLE_EQ(latency.typical_ns, 1);
  EXPECT_DOUBLE_EQ(latency.max_ns, 2);
  EXPECT_DOUBLE_EQ(latency.average_ns, 14.0 / 3 / 4);
}

TEST(PerfLatency, KeepsADeviationBesideGreatNumbers) {
  const std::uint64_t base = std::uint64_t{1} << 52;
  EXPECT_NEAR(latency_of({base + 1, base - 1, base + 1, base - 1}).stdev_ns, 1, 1e-6);
}

TEST(PerfLatency, AnOutlierMovesTheAverageAndNotTheTypical) {
  std::vector<std::uint64_t> samples(1000, 10);
  samples[17] = 1'000'000;
  const Latency latency = latency_of(samples);
  EXPECT_EQ(latency.typical_ns, 10);
  EXPECT_EQ(latency.percentile_99_ns, 10);
  EXPECT_EQ(latency.max_ns, 1'000'000);
  EXPECT_GT(latency.average_ns, 1000);
}

TEST(PerfLatency, BoundsItsMemoryAndStillKnowsTheExtremes) {
  LatencySamples samples(16);
  const std::uint64_t count = 100'003;
  for (std::uint64_t i = 0; i < count; ++i) samples.add(i == 77'777 ? 1'000'000 : 100 + i % 10);
  EXPECT_EQ(samples.count(), count);
  const Latency latency = samples.summary(1);
  EXPECT_EQ(latency.max_ns, 1'000'000);
  EXPECT_EQ(latency.min_ns, 100);
  EXPECT_NEAR(latency.average_ns, 104.5 + 1e6 / count, 0.1);
  EXPECT_GE(latency.typical_ns, 100);
  EXPECT_LE(latency.typical_ns, 109);
}

// perftest's method: pairs every post with every later completion.
double peak_by_all_pairs(const std::vector<Mark>& posts, const std::vector<Mark>& completions) {
  double best = 0;
  for (const Mark& post : posts) {
    for (const Mark& end : completions) {
      if (end.messages <= post.messages || end.ticks <= post.ticks) continue;
      best = std::max(best, static_cast<double>(end.messages - post.messages) /
                                static_cast<double>(end.ticks - post.ticks));
    }
  }
  return best;
}

struct Trace {
  std::vector<Mark> posts;
  std::vector<Mark> completions;
};

// Simulates a queue: posts while fewer than `depth` are in flight; completions arrive in batches.
Trace random_run(unsigned seed, std::uint64_t messages, std::uint64_t depth) {
  std::mt19937 random(seed);
  Trace run;
  std::uint64_t posted = 0;
  std::uint64_t complete = 0;
  std::uint64_t now = 1000;
  while (complete < messages) {
    now += 1 + random() % (random() % 16 == 0 ? 500 : 20);
    const std::uint64_t under_way = posted - complete;
    if (posted < messages && under_way < depth && (under_way == 0 || random() % 2 == 0)) {
      run.posts.push_back({.messages = posted, .ticks = now});
      posted += std::min<std::uint64_t>({1 + random() % 4, messages - posted, depth - under_way});
    } else {
      complete += 1 + random() % under_way;
      run.completions.push_back({.messages = complete, .ticks = now});
    }
  }
  return run;
}

TEST(PerfPeak, IsThatOfAllPairs) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    const Trace run = random_run(seed, 1 + seed, 1 + seed % 20);
    const double expected = peak_by_all_pairs(run.posts, run.completions);
    EXPECT_NEAR(peak_rate(run.posts, run.completions), expected, expected * 1e-12) << seed;
  }
}

TEST(PerfPeak, FindsAQuickStretchInASlowRun) {
  std::vector<Mark> posts;
  std::vector<Mark> completions;
  std::uint64_t now = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    posts.push_back({.messages = i, .ticks = now});
    now += i >= 40 && i < 50 ? 2 : 100;
    completions.push_back({.messages = i + 1, .ticks = now});
  }
  EXPECT_DOUBLE_EQ(peak_rate(posts, completions), 0.5);
}

TEST(PerfPeak, IsNothingWithoutMarks) {
  const std::vector<Mark> one{{.messages = 0, .ticks = 5}};
  EXPECT_EQ(peak_rate({}, {}), 0);
  EXPECT_EQ(peak_rate(one, {}), 0);
  EXPECT_EQ(peak_rate({}, one), 0);
  EXPECT_EQ(peak_rate(one, one), 0);
}

// Trying all pairs would take 4 * 10^10 steps, too many for the time limit of a test.
TEST(PerfPeak, IsLinear) {
  const Trace run = random_run(7, 600'000, 128);
  ASSERT_GT(run.posts.size(), 200'000U);
  const double rate = peak_rate(run.posts, run.completions);
  const double average =
      600'000.0 / static_cast<double>(run.completions.back().ticks - run.posts.front().ticks);
  EXPECT_GT(rate, average);
}

TEST(PerfMarks, BoundTheirMemoryAndKeepTheirOrder) {
  Marks marks(8);
  for (std::uint64_t i = 0; i < 1000; ++i) marks.add(i, 3 * i);
  ASSERT_LE(marks.kept().size(), 8U);
  ASSERT_GE(marks.kept().size(), 4U);
  EXPECT_EQ(marks.kept().front(), (Mark{.messages = 0, .ticks = 0}));
  const auto step = marks.kept()[1].messages;
  for (std::size_t i = 0; i < marks.kept().size(); ++i) {
    EXPECT_EQ(marks.kept()[i], (Mark{.messages = i * step, .ticks = 3 * i * step}));
  }
}

TEST(PerfNoise, ASteadyRunHasNoNoise) {
  LatencySamples samples;
  Marks posts;
  Marks completions;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    samples.add(i % 2 == 0 ? 10 : 12);
    posts.add(i, 100 * i);
    completions.add(i, 100 * i);
  }
  EXPECT_EQ(samples.summary(1).noise, 0);
  EXPECT_NEAR(noise_of(posts.kept(), completions.kept()), 0, 1e-9);
}

// Completions arrive sixteen at a time, after the last of their posts. Only every sixteenth post
// has a mark.
TEST(PerfNoise, BurstsOfCompletionsAreNoNoise) {
  std::vector<Mark> posts;
  std::vector<Mark> completions;
  for (std::uint64_t i = 0; i < 1000; i += 16) {
    posts.push_back({.messages = i, .ticks = 100 * i});
    completions.push_back({.messages = i + 16, .ticks = 100 * (i + 15)});
    completions.push_back({.messages = i + 16, .ticks = 100 * (i + 15)});
  }
  EXPECT_LT(noise_of(posts, completions), 0.1);
}

TEST(PerfNoise, IsHalfTheRangeOfTenParts) {
  LatencySamples samples;
  for (std::uint64_t i = 0; i < 1000; ++i) samples.add(i >= 300 && i < 400 ? 20 : 10);
  EXPECT_DOUBLE_EQ(samples.summary(1).noise, 0.5);

  // After message 300 nothing moves for 100 ticks, which is all of the run's noise.
  std::vector<Mark> marks;
  for (std::uint64_t i = 0; i <= 900; ++i)
    marks.push_back({.messages = i, .ticks = i <= 300 ? i : i + 100});
  marks.insert(marks.begin() + 301, {.messages = 300, .ticks = 400});
  EXPECT_NEAR(noise_of(marks, marks), 100.0 / 2 / 90, 1e-9);
}

TEST(PerfNoise, IsZeroForFewMarks) {
  LatencySamples samples;
  Marks marks;
  for (std::uint64_t i = 0; i < 10; ++i) {
    samples.add(1 + i);
    marks.add(i, 1 + i * i);
  }
  EXPECT_EQ(samples.summary(1).noise, 0);
  EXPECT_EQ(noise_of(marks.kept(), marks.kept()), 0);
  const std::vector<Mark> same(100, Mark{.messages = 7, .ticks = 7});
  EXPECT_EQ(noise_of(same, same), 0);
}

TEST(PerfBandwidth, CountsBytesAndMessages) {
  const Bandwidth bandwidth = bandwidth_of(1000, 4096, 1e6, 0.002);
  EXPECT_DOUBLE_EQ(bandwidth.average_bytes_per_second, 4096e6);
  EXPECT_DOUBLE_EQ(bandwidth.messages_per_second, 1e6);
  EXPECT_DOUBLE_EQ(bandwidth.peak_bytes_per_second, 2 * 4096e6);
}

TEST(PerfBandwidth, IsNothingInNoTime) {
  EXPECT_EQ(bandwidth_of(1000, 4096, 0).average_bytes_per_second, 0);
}

}  // namespace
}  // namespace hbmwire::tools::perf
