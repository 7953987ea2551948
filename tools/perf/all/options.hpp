// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "tools/common/output.hpp"
#include "tools/perf/all/matrix_runner.hpp"

namespace hbmwire::tools::perf::all {

/// The command line of `hbmwire perf --all`.
struct Options {
  MatrixOptions matrix;
  std::string bind;  ///< as GroupOptions::address
  bool gigabits = false;
  bool json = false;
  bool quiet = false;
  std::string json_file;
  std::string csv_file;
  std::string plot_file;
  std::string compare_file;

  [[nodiscard]] Output::Mode output_mode() const noexcept {
    if (json) return Output::Mode::json;
    return quiet ? Output::Mode::quiet : Output::Mode::text;
  }
};

/// Whether the command line asks for --all and names no test: with a test, -a is that test's own
/// option, and means all sizes.
[[nodiscard]] bool is_asked_for(int argc, char** argv);

/// Parses; nothing when the tool should run, else the code to exit with.
std::optional<int> parse_options(const std::string& program, int argc, char** argv,
                                 Options& options);

}  // namespace hbmwire::tools::perf::all
