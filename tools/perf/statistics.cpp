// SPDX-License-Identifier: MIT
#include "tools/perf/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace hbmwire::tools::perf {
namespace {

// Keeps every other element, in place.
template <class T>
void thin(std::vector<T>& kept) noexcept {
  std::size_t to = 0;
  for (std::size_t from = 0; from < kept.size(); from += 2) kept[to++] = kept[from];
  kept.resize(to);
}

// The smallest element that at least this `share` of all elements do not exceed: the smallest for
// 0, the largest for 1. Takes linear time.
std::uint64_t quantile(std::vector<std::uint64_t>& samples, double share) {
  const auto size = static_cast<double>(samples.size());
  const auto rank = static_cast<std::size_t>(std::max(0.0, std::ceil(share * size) - 1));
  const auto at = samples.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

// For an even number of elements, the mean of the middle two.
double median(std::vector<std::uint64_t>& samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  const auto upper = static_cast<double>(*middle);
  if (samples.size() % 2 == 1) return upper;
  return (static_cast<double>(*std::max_element(samples.begin(), middle)) + upper) / 2;
}

constexpr std::size_t kParts = 10;

// Half the range of the parts' figures, relative to `whole`.
template <class Parts>
double half_range(const Parts& parts, double whole) {
  const auto [least, greatest] = std::ranges::minmax(parts);
  return whole > 0 ? (greatest - least) / 2 / whole : 0;
}

// The noise of the medians of consecutive parts.
double noise_of_medians(std::span<const std::uint64_t> samples, double whole) {
  // The median of fewer than ten samples is unreliable.
  constexpr std::size_t kLeastSamples = 10 * kParts;
  if (samples.size() < kLeastSamples) return 0;
  std::array<double, kParts> medians{};
  for (std::size_t i = 0; i < kParts; ++i) {
    const std::size_t from = samples.size() * i / kParts;
    const std::size_t to = samples.size() * (i + 1) / kParts;
    std::vector<std::uint64_t> part(samples.begin() + static_cast<std::ptrdiff_t>(from),
                                    samples.begin() + static_cast<std::ptrdiff_t>(to));
    medians.at(i) = median(part);
  }
  return half_range(medians, whole);
}

// Ticks per message between two marks.
double slope(const Mark& from, const Mark& to) noexcept {
  return static_cast<double>(to.ticks - from.ticks) /
         static_cast<double>(to.messages - from.messages);
}

// The number of messages at a time. Interpolates linearly between two marks.
double messages_at(std::span<const Mark> marks, double ticks) {
  const auto is_later = [](double time, const Mark& mark) {
    return time < static_cast<double>(mark.ticks);
  };
  const auto next = std::upper_bound(marks.begin(), marks.end(), ticks, is_later);
  if (next == marks.begin()) return 0;
  const Mark& last = *(next - 1);
  const auto known = static_cast<double>(last.messages);
  if (next == marks.end()) return known;
  const double share =
      (ticks - static_cast<double>(last.ticks)) / static_cast<double>(next->ticks - last.ticks);
  return known + share * static_cast<double>(next->messages - last.messages);
}

// The posts so far at which a best stretch can begin. They are the upper hull of the points with
// messages on the x axis and ticks on the y axis.
class UpperHull {
 public:
  explicit UpperHull(std::size_t capacity) { points_.reserve(capacity); }

  void add(const Mark& post) {
    if (points_.size() > first_ && points_.back().messages == post.messages) {
      // Nothing was posted between the two: the later time gives the better bound.
      points_.back() = post;
      return;
    }
    // The last point is not on the hull if it does not lie above the line past it.
    while (points_.size() >= first_ + 2 &&
           slope(points_[points_.size() - 2], points_.back()) <= slope(points_.back(), post)) {
      points_.pop_back();
    }
    points_.push_back(post);
  }

  // The smallest slope from any point of the hull to `end`. Points to the left of the touching
  // point are dropped: a later end that touches the hull there has a slope no smaller than the
  // hull's, which is no smaller than the one found now.
  [[nodiscard]] double touch(const Mark& end) {
    while (first_ + 1 < points_.size() &&
           slope(points_[first_ + 1], end) <= slope(points_[first_], end)) {
      ++first_;
    }
    return slope(points_[first_], end);
  }

  [[nodiscard]] bool empty() const noexcept { return points_.empty(); }

 private:
  std::vector<Mark> points_;
  std::size_t first_ = 0;  // points before it are dropped
};

}  // namespace

LatencySamples::LatencySamples(std::size_t capacity) : capacity_(capacity) {
  kept_.reserve(capacity_);
}

void LatencySamples::keep(std::uint64_t ticks) noexcept {
  if (kept_.size() == capacity_) {
    thin(kept_);
    stride_ *= 2;
  }
  kept_.push_back(ticks);
}

Latency LatencySamples::summary(double ns_per_tick) const {
  if (count_ == 0) return {};
  const auto count = static_cast<double>(count_);
  const double from_first = sum_ / count;
  const double variance = std::max(0.0, squares_ / count - from_first * from_first);
  const auto ns = [&](std::uint64_t ticks) { return static_cast<double>(ticks) * ns_per_tick; };
  std::vector<std::uint64_t> samples = kept_;
  const double typical = median(samples);
  return {.min_ns = ns(min_),
          .max_ns = ns(max_),
          .typical_ns = typical * ns_per_tick,
          .average_ns = (static_cast<double>(first_) + from_first) * ns_per_tick,
          .stdev_ns = std::sqrt(variance) * ns_per_tick,
          .percentile_99_ns = ns(quantile(samples, 0.99)),
          .percentile_99_9_ns = ns(quantile(samples, 0.999)),
          .noise = noise_of_medians(kept_, typical)};
}

Marks::Marks(std::size_t capacity) : capacity_(capacity) { kept_.reserve(capacity_); }

void Marks::keep(Mark mark) noexcept {
  if (kept_.size() == capacity_) {
    thin(kept_);
    stride_ *= 2;
  }
  kept_.push_back(mark);
}

double peak_rate(std::span<const Mark> posts, std::span<const Mark> completions) {
  UpperHull hull(posts.size());
  double best = 0;  // ticks per message; 0 at first
  auto post = posts.begin();
  for (const Mark& end : completions) {
    for (; post != posts.end() && post->ticks < end.ticks && post->messages < end.messages; ++post)
      hull.add(*post);
    if (hull.empty()) continue;
    const double found = hull.touch(end);
    if (best == 0 || found < best) best = found;
  }
  return best == 0 ? 0 : 1 / best;
}

double noise_of(std::span<const Mark> posts, std::span<const Mark> completions) {
  if (posts.empty() || completions.size() <= kParts) return 0;
  const auto begin = static_cast<double>(posts.front().ticks);
  const auto end = static_cast<double>(completions.back().ticks);
  if (end <= begin) return 0;
  std::array<double, kParts> moved{};
  double before = 0;
  for (std::size_t i = 0; i < kParts; ++i) {
    const double time = begin + (end - begin) * static_cast<double>(i + 1) / kParts;
    const double now = messages_at(posts, time) + messages_at(completions, time);
    moved.at(i) = now - before;
    before = now;
  }
  return half_range(moved, before / kParts);  // `before` is the sum of all parts now
}

Bandwidth bandwidth_of(std::uint64_t messages, std::uint64_t message_bytes, double elapsed_ns,
                       double peak_messages_per_ns, double noise) {
  if (elapsed_ns <= 0) return {};
  const auto bytes = static_cast<double>(message_bytes);
  const double per_second = static_cast<double>(messages) / elapsed_ns * 1e9;
  return {.peak_bytes_per_second = peak_messages_per_ns * bytes * 1e9,
          .average_bytes_per_second = per_second * bytes,
          .messages_per_second = per_second,
          .noise = noise};
}

}  // namespace hbmwire::tools::perf
