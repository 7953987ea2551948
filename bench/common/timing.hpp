// SPDX-License-Identifier: MIT
#pragma once

#include <time.h>

#include <algorithm>
#include <vector>

namespace hbmwire::bench {

inline double clock_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

inline double now_ns() { return clock_ns(CLOCK_MONOTONIC); }

/// The upper one of the two middle values; 0 if there are none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The median time of `chunks` calls. The kernel sometimes gives the CPU to another program. If the
/// calls are short, that falls into few of them, which do not change the median.
template <typename Body>
double median_ns(unsigned chunks, Body body) {
  std::vector<double> times;
  times.reserve(chunks);
  double before = now_ns();
  for (unsigned i = 0; i < chunks; ++i) {
    body();
    const double after = now_ns();
    times.push_back(after - before);
    before = after;
  }
  return median(std::move(times));
}

}  // namespace hbmwire::bench
