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

/// A check at both ends, with the worst of its findings (bad, slow, unknown, good); empty if the
/// check does not apply to that machine.
struct CheckAtBothEnds {
  std::string check;
  std::optional<Verdict> here;
  std::optional<Verdict> there;

  bool operator==(const CheckAtBothEnds&) const = default;
};

/// The checks with findings at one end or both, in the order of all_checks().
[[nodiscard]] std::vector<CheckAtBothEnds> side_by_side(std::span<const Finding> here,
                                                        std::span<const Finding> there);

/// A row for each check that is bad, slow or unknown at an end; then the checks that are good at
/// one end and do not apply at the other; then the number of checks that are good at both. `peer`:
/// the other machine's name, a foreign text. Empty without checks. Lines have no newline.
[[nodiscard]] std::vector<std::string> side_by_side_lines(
    const std::vector<CheckAtBothEnds>& checks, std::string_view peer, const ReportStyle& style);

/// The faults among the differences, then the notes, each with its remedy after "->". An empty line
/// precedes each of the two parts. Empty without differences.
[[nodiscard]] std::vector<std::string> difference_lines(const std::vector<Difference>& differences,
                                                        const ReportStyle& style);

/// A list of objects: `check here there`, each with a verdict's name, or null.
[[nodiscard]] Json to_json(const std::vector<CheckAtBothEnds>& checks);

}  // namespace hbmwire::tools::doctor
