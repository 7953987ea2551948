// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>

namespace hbmwire::bench {

/// The most iterations that ucx_perftest makes before those that it counts (-w); never more than it
/// counts.
inline constexpr unsigned kUcxWarmUp = 2000;

/// A test of `ucx_perftest` (Debian's ucx-utils), one end on each CPU.
struct UcxTest {
  std::string name;  // -t of ucx_perftest
  unsigned iterations = 1000;
  std::string transport = "posix";  // UCX_TLS
  std::size_t bytes = 8;
  unsigned outstanding = 1;  // sends under way, for tag_bw
};

/// In nanoseconds: half a round trip, or one put or message. The median is a whole number of steps
/// of the time stamp counter, which are 10 ns on some processors.
struct UcxFigures {
  double median_ns = 0;
  double average_ns = 0;  // over all iterations
};

/// Runs one test. Fails with an exception.
UcxFigures ucx_perftest(const UcxTest& test);

}  // namespace hbmwire::bench
