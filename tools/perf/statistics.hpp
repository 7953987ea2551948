// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/perf/result.hpp"

namespace hbmwire::tools::perf {

/// Durations of single operations, in ticks of the caller's clock. Memory is bounded: when
/// `capacity` is reached, every other sample is dropped, and from then on only every second,
/// fourth, ... one is kept. Minimum, maximum, average and deviation count all samples. add()
/// allocates nothing.
class LatencySamples {
 public:
  static constexpr std::size_t kCapacity = std::size_t{1} << 20;

  /// `capacity` must be even, at least 2.
  explicit LatencySamples(std::size_t capacity = kCapacity);

  void add(std::uint64_t ticks) noexcept {
    if (count_ == 0) first_ = min_ = ticks;
    min_ = ticks < min_ ? ticks : min_;
    max_ = ticks > max_ ? ticks : max_;
    // Negative if it took less than the first one.
    const auto value = static_cast<double>(static_cast<std::int64_t>(ticks - first_));
    sum_ += value;
    squares_ += value * value;
    if ((count_ & (stride_ - 1)) == 0) keep(ticks);
    ++count_;
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

  /// The values of perftest's columns, for ticks of `ns_per_tick` (for halved round trips, half a
  /// tick). Linear in the number of kept samples. t_typical is the median. Unlike perftest, which
  /// drops the two longest, this counts all samples. All values are zero without samples. The noise
  /// is half the range of the medians of ten equal parts of the run, relative to the typical value;
  /// 0 for fewer than 100 samples.
  [[nodiscard]] Latency summary(double ns_per_tick) const;

 private:
  void keep(std::uint64_t ticks) noexcept;

  std::vector<std::uint64_t> kept_;
  std::size_t capacity_;
  std::uint64_t stride_ = 1;  // a power of two
  std::uint64_t count_ = 0;
  std::uint64_t min_ = 0;
  std::uint64_t max_ = 0;
  // The sums are of distances from the first sample, because the squares of large numbers would
  // leave no digits for the deviation.
  std::uint64_t first_ = 0;
  double sum_ = 0;
  double squares_ = 0;
};

/// A moment of a bandwidth run. For a post: the number of messages posted before it. For a
/// completion: the number of messages completed then.
struct Mark {
  std::uint64_t messages = 0;
  std::uint64_t ticks = 0;

  bool operator==(const Mark&) const = default;
};

/// Marks of a run, with bounded memory as in LatencySamples. Messages and ticks never decrease.
/// add() allocates nothing.
class Marks {
 public:
  static constexpr std::size_t kCapacity = std::size_t{1} << 16;

  /// `capacity` must be even, at least 2.
  explicit Marks(std::size_t capacity = kCapacity);

  void add(std::uint64_t messages, std::uint64_t ticks) noexcept {
    if ((count_++ & (stride_ - 1)) == 0) keep({messages, ticks});
  }

  [[nodiscard]] std::span<const Mark> kept() const noexcept { return kept_; }

 private:
  void keep(Mark mark) noexcept;

  std::vector<Mark> kept_;
  std::size_t capacity_;
  std::uint64_t stride_ = 1;
  std::uint64_t count_ = 0;
};

/// The most messages per tick between any post and any later completion, which perftest calls peak.
/// perftest tries all pairs; this takes linear time. 0 if no completion is later than a post. Both
/// lists come from Marks.
[[nodiscard]] double peak_rate(std::span<const Mark> posts, std::span<const Mark> completions);

/// The steadiness of a run: half the range of the rates of its ten parts of equal length, relative
/// to the average. A message counts half when it is posted and half when it completes, since
/// completions are reported in bursts. 0 if there are too few marks.
[[nodiscard]] double noise_of(std::span<const Mark> posts, std::span<const Mark> completions);

/// `elapsed_ns`: from before the first post until after the last completion.
/// `peak_messages_per_ns`: from peak_rate(); 0 if not computed. `noise`: from noise_of().
[[nodiscard]] Bandwidth bandwidth_of(std::uint64_t messages, std::uint64_t message_bytes,
                                     double elapsed_ns, double peak_messages_per_ns = 0,
                                     double noise = 0);

}  // namespace hbmwire::tools::perf
