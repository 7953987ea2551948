// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/common/output.hpp"
#include "tools/trace/summary.hpp"

namespace hbmwire::tools::trace {

/// The missing parts of the trace, and events that it should not have: one sentence for each.
[[nodiscard]] std::vector<std::string> notes_of(const TraceFacts& facts);

/// The report for people, `columns` wide.
void print_report(Output& output, const TraceFacts& facts, Summary& summary, unsigned columns);

/// The members of --json.
[[nodiscard]] Json report_json(const TraceFacts& facts, Summary& summary);

/// The meaning of `wait`, the reason for which a transfer waited; empty if this version writes no
/// such reason.
[[nodiscard]] std::string_view meaning_of(std::string_view wait);

}  // namespace hbmwire::tools::trace
