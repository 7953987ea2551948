// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/output.hpp"
#include "tools/doctor/checks/finding.hpp"
#include "tools/doctor/remote/differences.hpp"
#include "tools/doctor/report/report.hpp"

namespace hbmwire::tools::doctor {

/// A check at both ends: the worst of its findings (bad, slow, unknown, good). Nothing where the
/// check says nothing, since the machine has none of what it judges.
struct CheckAtBothEnds {
  std::string check;
  std::optional<Verdict> here;
  std::optional<Verdict> there;

  bool operator==(const CheckAtBothEnds&) const = default;
};

/// The checks that found something at one end at least, in the order of all_checks().
[[nodiscard]] std::vector<CheckAtBothEnds> side_by_side(std::span<const Finding> here,
                                                        std::span<const Finding> there);

/// A row for each check that is bad, slow or unknown at an end; then the checks that are good at
/// one end and have nothing to judge at the other, and how many are good at both. `peer` is the
/// other machine's name, a foreign text. Nothing for no checks. Lines without an end.
[[nodiscard]] std::vector<std::string> side_by_side_lines(
    const std::vector<CheckAtBothEnds>& checks, std::string_view peer, const ReportStyle& style);

/// The differences that are faults, then those that are notes, each with its remedy behind "->".
/// An empty line is before each of the two parts. Nothing for no differences.
[[nodiscard]] std::vector<std::string> difference_lines(const std::vector<Difference>& differences,
                                                        const ReportStyle& style);

/// A list of objects: `check here there`, with a verdict's word, or null.
[[nodiscard]] Json to_json(const std::vector<CheckAtBothEnds>& checks);

}  // namespace hbmwire::tools::doctor
