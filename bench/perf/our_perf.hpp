// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hbmwire::bench {

/// A run of `hbmwire perf`, one end on each CPU.
struct PerfTest {
  std::string name;  // "put_lat"
  std::size_t bytes = 8;
  std::uint64_t iterations = 1000;
  std::vector<std::string> options = {};         // further options of the client
  std::vector<std::string> server_options = {};  // further options of the server
};

struct PerfFigures {
  double typical_ns = 0;  // for a latency test
  double message_ns = 0;  // for a bandwidth test: the time for one message
};

/// Runs one test, which verifies its bytes. Fails with an exception.
PerfFigures hbmwire_perf(const PerfTest& test);

}  // namespace hbmwire::bench
