// SPDX-License-Identifier: MIT
#include "bench/common/ucx.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "bench/common/pair.hpp"

namespace hbmwire::bench {
namespace {

/// The last line of `-f` output is figures alone: iterations; median, average of the last part and
/// of all, in microseconds; ...
UcxFigures figures_of(const std::string& output) {
  std::istringstream lines(output);
  std::string line;
  UcxFigures figures;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    double iterations = 0;
    double median_us = 0;
    double last_us = 0;
    double average_us = 0;
    if (fields >> iterations >> median_us >> last_us >> average_us)
      figures = {median_us * 1000, average_us * 1000};
  }
  return figures;
}

}  // namespace

UcxFigures ucx_perftest(const UcxTest& test) {
  const unsigned port = free_port();
  const std::string at = std::to_string(port);
  ProgramPair pair{.server = {"ucx_perftest", "-p", at},
                   .client = {"ucx_perftest", "127.0.0.1", "-p", at, "-t", test.name, "-s",
                              std::to_string(test.bytes), "-n", std::to_string(test.iterations),
                              "-w", std::to_string(std::min(2000U, test.iterations)), "-O",
                              std::to_string(test.outstanding), "-f"},
                   .port = port,
                   .variables = {{"UCX_TLS", test.transport}, {"UCX_WARN_UNUSED_ENV_VARS", "n"}}};
  const UcxFigures result = figures_of(run_pair(pair));
  if (result.median_ns <= 0)
    throw std::runtime_error("ucx_perftest gave no figure (package ucx-utils)");
  return result;
}

}  // namespace hbmwire::bench
