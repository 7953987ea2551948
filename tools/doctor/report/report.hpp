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

/// All that the doctor says of a machine, made of its evidence alone: a saved machine gives the
/// same.
struct Report {
  bool emulated = false;
  std::optional<Pairs> pairs;  ///< none: a quick look
  std::vector<Finding> findings;
  Conclusion conclusion;
  std::vector<Cause> causes;
  Json machine;  ///< the call "info"; null: it can't be had
};

/// Runs all checks. Errors: the evidence has runs over pairs that are none.
[[nodiscard]] Outcome<Report> make_report(Evidence& machine, bool emulated);

/// How text is laid out.
struct ReportStyle {
  unsigned columns = 80;
  bool coloured = false;
};

/// The numbered list of all that is wrong, an empty line and a heading before it; nothing without
/// causes.
[[nodiscard]] std::vector<std::string> cause_lines(const std::vector<Cause>& causes, Health health,
                                                   unsigned columns);

/// Verdict, matrix, causes, and what is not known. Lines without an end.
[[nodiscard]] std::vector<std::string> report_lines(const Report& report, const ReportStyle& style);

[[nodiscard]] Json to_json(const Finding& finding);
[[nodiscard]] Json to_json(const Cause& cause);

/// docs/doctor.md has its members.
[[nodiscard]] Json to_json(const Report& report);

}  // namespace hbmwire::tools::doctor
