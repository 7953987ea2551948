// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/common/failure.hpp"
#include "tools/perf/result.hpp"
#include "tools/perf/table.hpp"

namespace hbmwire::tools::perf {

/// A size that both runs have.
struct Change {
  enum class Kind : std::uint8_t { none, better, worse };

  std::uint64_t size_bytes = 0;
  double before = 0;  ///< average bytes a second, or typical nanoseconds
  double now = 0;
  double relative = 0;  ///< now against before: +0.1 is 10 % more
  double noise = 0;     ///< relative: what differs by no more says nothing
  Kind kind = Kind::none;
};

struct RunComparison {
  Measure measure = Measure::bandwidth;
  std::vector<Change> changes;           ///< ascending sizes
  std::vector<std::string> differences;  ///< of the conditions: "memory here: gaudi, before: host"
  std::vector<std::uint64_t> only_before;  ///< sizes without a figure now
  std::vector<std::uint64_t> only_now;
};

/// Noise is measured, in each run by itself: half the range of ten parts of it (noise_of()), of a
/// run too short for that 10 %. A change counts when it is larger than both runs' together, each
/// taken as 1 % at least, since two steady runs may still have met the machine in two states.
/// Errors: another test.
Outcome<RunComparison> compare_runs(const RunResult& before, const RunResult& now);

[[nodiscard]] std::vector<std::string> comparison_lines(const RunComparison& comparison,
                                                        const Style& style);

[[nodiscard]] Json to_json(const RunComparison& comparison);

}  // namespace hbmwire::tools::perf
