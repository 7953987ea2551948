// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/common/failure.hpp"
#include "tools/common/output.hpp"
#include "tools/perf/result.hpp"
#include "tools/perf/table.hpp"

namespace hbmwire::tools::perf {

/// A run as JSON. "test_info" and "results" (for the last size) have perftest's keys, and the units
/// of `style`. "rows" has every size, in bytes, nanoseconds, and rates per second. Figures are null
/// if the bytes did not arrive.
[[nodiscard]] Json to_json(const RunResult& run, const Style& style);

/// Reads the output of to_json(), which may have been edited. Reads only the values that a
/// comparison needs, not explanations, limits and verdict. The error names the value that is
/// missing or invalid, and its place.
[[nodiscard]] tl::expected<RunResult, std::string> run_from_json(const Json& json);

/// Reads the file of --compare. To be called before the run, whose result may overwrite the file.
/// Errors: one sentence for a file that cannot be read, is no JSON, or has another format.
Outcome<RunResult> read_run(const std::string& path);

}  // namespace hbmwire::tools::perf
