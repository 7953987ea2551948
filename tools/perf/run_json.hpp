// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/common/failure.hpp"
#include "tools/common/output.hpp"
#include "tools/perf/result.hpp"
#include "tools/perf/table.hpp"

namespace hbmwire::tools::perf {

/// A run as JSON. "test_info" and "results" (of the last size) have perftest's keys, and the units
/// that `style` chose; every size stands in "rows", in bytes, nanoseconds and rates a second.
/// Figures of bytes that did not arrive are null.
[[nodiscard]] Json to_json(const RunResult& run, const Style& style);

/// What to_json() wrote, whatever was done to it since. Only what a comparison needs is read:
/// explanations, limits and the verdict are not. The error says what is missing or can't be, and
/// where.
[[nodiscard]] tl::expected<RunResult, std::string> run_from_json(const Json& json);

/// The file of --compare. To be read before the run, which may be saved under the same name. One
/// sentence for a file that can't be read, is no JSON, or is none of ours.
Outcome<RunResult> read_run(const std::string& path);

}  // namespace hbmwire::tools::perf
