// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/common/failure.hpp"
#include "tools/perf/result.hpp"
#include "tools/perf/table.hpp"

namespace hbmwire::tools::perf {

/// The change for a size that both runs have.
struct Change {
  enum class Kind : std::uint8_t { none, better, worse };

  std::uint64_t size_bytes = 0;
  double before = 0;  ///< average bytes per second, or typical nanoseconds
  double now = 0;
  double relative = 0;  ///< now relative to before: +0.1 is 10 % more
  double noise = 0;     ///< relative: a smaller difference is not significant
  Kind kind = Kind::none;
};

struct RunComparison {
  Measure measure = Measure::bandwidth;
  std::vector<Change> changes;             ///< ascending sizes
  std::vector<std::string> differences;    ///< differences of the conditions: "memory here: gaudi,
                                           ///< before: host"
  std::vector<std::uint64_t> only_before;  ///< sizes without a result now
  std::vector<std::uint64_t> only_now;
};

/// The noise of each run is measured: half the range of its ten parts (noise_of()), or 10 % if the
/// run is too short for that. A change is significant if it exceeds the noise of both runs
/// together. Each noise counts as at least 1 %, since two steady runs may have met the machine in
/// two states. Errors: the tests differ.
Outcome<RunComparison> compare_runs(const RunResult& before, const RunResult& now);

[[nodiscard]] std::vector<std::string> comparison_lines(const RunComparison& comparison,
                                                        const Style& style);

[[nodiscard]] Json to_json(const RunComparison& comparison);

}  // namespace hbmwire::tools::perf
