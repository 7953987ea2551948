// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/perf/result.hpp"

namespace hbmwire::tools::perf {

/// Durations of single operations, in ticks of a clock of the caller's. Memory is bounded: beyond
/// `capacity` every other one that was kept is dropped, and from then on only every second, fourth,
/// ... one is kept. Least, greatest, average and deviation are of all, whatever was kept. add()
/// allocates nothing.
class LatencySamples {
 public:
  static constexpr std::size_t kCapacity = std::size_t{1} << 20;

  /// `capacity`: even, at least 2.
  explicit LatencySamples(std::size_t capacity = kCapacity);

  void add(std::uint64_t ticks) noexcept {
    if (count_ == 0) first_ = min_ = ticks;
    min_ = ticks < min_ ? ticks : min_;
    max_ = ticks > max_ ? ticks : max_;
    const auto value = static_cast<double>(static_cast<std::int64_t>(ticks - first_));
    sum_ += value;
    squares_ += value * value;
    if ((count_ & (stride_ - 1)) == 0) keep(ticks);
    ++count_;
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

  /// What perftest's columns say, from samples of `ns_per_tick` (a round trip halved: half of it).
  /// Linear in what was kept. t_typical is the median. Unlike perftest, which leaves out the two
  /// longest, nothing is left out. All zero without samples. The noise is half of what lies between
  /// the least and the greatest median of ten equal parts of the run, against the typical; it is
  /// not told of fewer than 100 samples.
  [[nodiscard]] Latency summary(double ns_per_tick) const;

 private:
  void keep(std::uint64_t ticks) noexcept;

  std::vector<std::uint64_t> kept_;
  std::size_t capacity_;
  std::uint64_t stride_ = 1;  // a power of two
  std::uint64_t count_ = 0;
  std::uint64_t min_ = 0;
  std::uint64_t max_ = 0;
  // Of distances from the first one, since a deviation drowns in the squares of large numbers.
  std::uint64_t first_ = 0;
  double sum_ = 0;
  double squares_ = 0;
};

/// A moment of a bandwidth run. Of a post: how many messages had been posted before it; of a
/// completion: how many were complete then.
struct Mark {
  std::uint64_t messages = 0;
  std::uint64_t ticks = 0;

  bool operator==(const Mark&) const = default;
};

/// Marks of a run, with bounded memory as LatencySamples has. Messages and ticks never decrease.
/// add() allocates nothing.
class Marks {
 public:
  static constexpr std::size_t kCapacity = std::size_t{1} << 16;

  /// `capacity`: even, at least 2.
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

/// Messages per tick in the best stretch from any post to any later completion: what perftest calls
/// peak. It tries all pairs; this is linear in the number of marks. 0 when no completion is later
/// than a post. Both lists as Marks keeps them.
[[nodiscard]] double peak_rate(std::span<const Mark> posts, std::span<const Mark> completions);

/// How steady a run was: half of what lies between the slowest and the quickest of ten parts of it
/// that took equally long, against the average. A message counts half when it is posted and half
/// when it is complete, since completions are told of in bursts. 0 when there are too few marks to
/// tell.
[[nodiscard]] double noise_of(std::span<const Mark> posts, std::span<const Mark> completions);

/// From one clock reading before the first post to one after the last completion; `peak` as
/// peak_rate() gives it, 0 where it was not looked for; `noise` as noise_of() does.
[[nodiscard]] Bandwidth bandwidth_of(std::uint64_t messages, std::uint64_t message_bytes,
                                     double elapsed_ns, double peak_messages_per_ns = 0,
                                     double noise = 0);

}  // namespace hbmwire::tools::perf
