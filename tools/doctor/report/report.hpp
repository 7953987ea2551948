// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/common/output.hpp"
#include "tools/doctor/checks/finding.hpp"
#include "tools/doctor/evidence/evidence.hpp"
#include "tools/doctor/pairs/pair.hpp"
#include "tools/doctor/report/ranking.hpp"
#include "tools/doctor/report/verdict.hpp"

namespace hbmwire::tools::doctor {

/// All results about a machine, derived only from its evidence, so that a saved machine gives the
/// same report.
struct Report {
  bool emulated = false;
  std::optional<Pairs> pairs;  ///< empty for a quick look
  std::vector<Finding> findings;
  Conclusion conclusion;
  std::vector<Cause> causes;
  Json machine;  ///< the call "info"; null if unknown
};

/// Runs all checks. Errors: the results of pairs in the evidence are malformed.
[[nodiscard]] Outcome<Report> make_report(Evidence& machine, bool emulated);

/// The layout of text.
struct ReportStyle {
  unsigned columns = 80;
  bool coloured = false;
};

/// The numbered list of all problems, after an empty line and a heading; empty without causes.
[[nodiscard]] std::vector<std::string> cause_lines(const std::vector<Cause>& causes, Health health,
                                                   unsigned columns);

/// Verdict, matrix, causes, and unknown checks. Lines have no newline.
[[nodiscard]] std::vector<std::string> report_lines(const Report& report, const ReportStyle& style);

[[nodiscard]] Json to_json(const Finding& finding);
[[nodiscard]] Json to_json(const Cause& cause);

/// docs/doctor.md lists the members.
[[nodiscard]] Json to_json(const Report& report);

}  // namespace hbmwire::tools::doctor
