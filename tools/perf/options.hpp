// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tools/common/output.hpp"
#include "tools/perf/memory_side.hpp"
#include "tools/perf/parameters.hpp"

namespace hbmwire::tools::perf {

/// The parsed command line.
struct Options {
  PerfRequest request;  ///< a server uses the client's request instead
  SideOptions side;
  bool memory_given = false;   ///< the command line chooses `side.memory`; a server that does not
                               ///< takes the client's choice
  std::string host;            ///< empty for a server
  std::uint16_t port = 18515;  ///< as in perftest
  std::string bind;
  std::chrono::seconds patience{8};
  /// The ranks that become client and server (--ranks). `host` is empty until the group has told
  /// where the server is.
  std::optional<std::pair<std::uint32_t, std::uint32_t>> ranks;

  // --- output ---
  bool gigabits = false;
  bool json = false;
  std::string json_file;
  bool quiet = false;
  std::string plot_file;
  std::string compare_file;
  double least_bandwidth = 0;     ///< -w, in the unit shown; 0: no minimum
  double least_message_rate = 0;  ///< -y, in millions per second

  [[nodiscard]] Output::Mode output_mode() const noexcept {
    if (json) return Output::Mode::json;
    return quiet ? Output::Mode::quiet : Output::Mode::text;
  }
};

/// Parses the command line. Returns nothing if the tool should run, else the exit code.
std::optional<int> parse_options(const std::string& program, int argc, char** argv,
                                 Options& options);

}  // namespace hbmwire::tools::perf
