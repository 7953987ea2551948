// SPDX-License-Identifier: MIT
#include "bench/common/ucx.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/common/pair.hpp"

namespace hbmwire::bench {
namespace {

/// Reads the last line of `-f` output. It has eight figures: iterations; median time, average of
/// the last part, average of all (in microseconds, to whole nanoseconds); MB/s of the last part and
/// of all; messages a second of the last part and of all. The last figure gives the average with
/// more digits than the fourth.
UcxFigures figures_of(const std::string& output) {
  std::istringstream lines(output);
  std::string line;
  UcxFigures figures;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::array<double, 8> values{};
    bool figures_alone = true;
    for (double& value : values) figures_alone = figures_alone && fields >> value;
    if (figures_alone && values[7] > 0) figures = {values[1] * 1000, 1e9 / values[7]};
  }
  return figures;
}

/// An option for programs that were built with MPI (Debian 13's), which would otherwise wait for
/// the processes of mpirun. Other builds do not have the option.
std::vector<std::string> without_mpi() {
  static const bool knows_mpi = [] {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> help(::popen("ucx_perftest -h 2>&1", "r"),
                                                               &::pclose);
    std::string text;
    std::array<char, 4096> piece{};
    while (help != nullptr && std::fgets(piece.data(), piece.size(), help.get()) != nullptr)
      text += piece.data();
    return text.find("MPI mode") != std::string::npos;
  }();
  if (!knows_mpi) return {};
  return {"-P", "0"};
}

}  // namespace

UcxFigures ucx_perftest(const UcxTest& test) {
  const unsigned port = free_port();
  const std::string at = std::to_string(port);
  ProgramPair pair{.server = {"ucx_perftest", "-p", at},
                   .client = {"ucx_perftest", "127.0.0.1", "-p", at, "-t", test.name, "-s",
                              std::to_string(test.bytes), "-n", std::to_string(test.iterations),
                              "-w", std::to_string(std::min(kUcxWarmUp, test.iterations)), "-O",
                              std::to_string(test.outstanding), "-f"},
                   .port = port,
                   .variables = {{"UCX_TLS", test.transport}, {"UCX_WARN_UNUSED_ENV_VARS", "n"}}};
  for (auto* command : {&pair.server, &pair.client})
    std::ranges::copy(without_mpi(), std::back_inserter(*command));
  const UcxFigures result = figures_of(run_pair(pair));
  if (result.median_ns <= 0)
    throw std::runtime_error("ucx_perftest gave no figure (package ucx-utils)");
  return result;
}

}  // namespace hbmwire::bench
