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
  std::vector<std::string> options = {};         // of the client, further ones
  std::vector<std::string> server_options = {};  // of the server
};

struct PerfFigures {
  double typical_ns = 0;  // of a latency test
  double message_ns = 0;  // of a bandwidth test: one of all messages
};

/// One run, verified by itself. Fails with an exception.
PerfFigures hbmwire_perf(const PerfTest& test);

}  // namespace hbmwire::bench
