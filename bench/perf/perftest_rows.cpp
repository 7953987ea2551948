// SPDX-License-Identifier: MIT
#include <sstream>
#include <stdexcept>
#include <utility>

#include "bench/common/pair.hpp"
#include "bench/perf/our_perf.hpp"
#include "bench/perf/rows.hpp"

namespace hbmwire::bench {
namespace {

constexpr std::size_t kLarge = 64 << 10;

/// A test that both programs have.
struct Test {
  std::string name;  // "write_bw"
  std::size_t bytes = 8;
  unsigned iterations = 20'000;

  [[nodiscard]] bool is_latency() const { return name.ends_with("lat"); }
};

/// Runs perftest. The line with its figures begins with the size, and follows its headline.
double perftest_ns(const Test& test, unsigned iterations) {
  const unsigned port = free_port();
  std::vector<std::string> command{"ib_" + test.name,
                                   "-F",
                                   "-p",
                                   std::to_string(port),
                                   "-s",
                                   std::to_string(test.bytes),
                                   "-n",
                                   std::to_string(iterations)};
  ProgramPair pair{.server = command, .client = command, .port = port};
  pair.client.emplace_back("localhost");
  const std::string output = run_pair(pair);
  const std::size_t headline = output.find("#bytes");
  std::istringstream lines(headline == std::string::npos ? "" : output.substr(headline));
  std::string line;
  std::getline(lines, line);  // the headline itself
  double size = 0;
  double count = 0;
  // In a bandwidth test, or in a latency test (in microseconds):
  double third = 0;   // peak bandwidth, or t_min
  double fourth = 0;  // average bandwidth, or t_max
  double fifth = 0;   // message rate in millions, or t_typical
  if (!(lines >> size >> count >> third >> fourth >> fifth) || fifth <= 0)
    throw std::runtime_error("perftest gave no figure (package perftest)");
  return test.is_latency() ? fifth * 1e3 : 1e3 / fifth;
}

class AgainstPerftest final : public Contest {
 public:
  AgainstPerftest(Test test, const Effort& effort)
      : test_(std::move(test)), iterations_(effort.quick ? 200 : test_.iterations) {}

  double ours() override {
    const PerfFigures figures = hbmwire_perf({test_.name, test_.bytes, iterations_});
    return test_.is_latency() ? figures.typical_ns : figures.message_ns;
  }

  double theirs() override { return perftest_ns(test_, iterations_); }

 private:
  Test test_;
  unsigned iterations_;
};

Row row_of(const Test& test) {
  const std::string size = test.bytes == kLarge ? "64k" : std::to_string(test.bytes);
  Row row{.name = test.name + "-" + size,
          .ours = "hbmwire perf " + test.name + ", " + size,
          .theirs = "ib_" + test.name};
  // Better::higher compares speeds, although both sides give ns for a message.
  row.better = test.is_latency() ? Better::lower : Better::higher;
  row.limit = test.is_latency() ? 1.02 : 0.98;
  // Only large messages are shown in GB/s: for 8 bytes ns for each say more.
  if (test.bytes == kLarge) row.bytes = test.bytes;
  row.make = [test](const Effort& effort) {
    return std::make_unique<AgainstPerftest>(test, effort);
  };
  return row;
}

}  // namespace

std::vector<Row> perftest_rows() {
  std::vector<Row> rows;
  for (const std::string verb : {"write", "read", "send"}) {
    rows.push_back(row_of({verb + "_bw"}));
    rows.push_back(row_of({verb + "_bw", kLarge, 5'000}));
    rows.push_back(row_of({verb + "_lat", 8, 10'000}));
  }
  return rows;
}

}  // namespace hbmwire::bench
