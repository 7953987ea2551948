// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/checks/finding.hpp"
#include "tools/doctor/pairs/pair.hpp"

namespace hbmwire::tools::doctor {

/// A problem: the finding of a check, or pairs that failed. Exactly one of the two is set.
struct Cause {
  std::optional<Finding> finding = {};
  std::optional<PairError> error = {};
  std::vector<std::string> pairs =
      {};                ///< "gaudi 0 - emu0": the pairs that it explains, or that failed this way
  bool slow = false;     ///< it works, but slowly
  bool refuted = false;  ///< by pairs: is_refuted()
};

/// The name of a pair.
[[nodiscard]] std::string name_of(const Pair& pair);

/// The checks that may explain why a step failed with a hint, the most likely first.
[[nodiscard]] std::vector<std::string_view> checks_of(std::string_view step, std::string_view hint);

/// The step that stands for slow pairs in checks_of().
inline constexpr std::string_view kSlowStep = "slow";

/// Whether the pairs disprove a fault: a fault of this kind makes pairs fail, and no pair that it
/// concerns fails that way. An example is a bridge that would redirect peer traffic to the CPU, in
/// a machine where all of this traffic arrives. On emulated hardware this holds for every fault,
/// since its sysfs shows only files that programs need.
[[nodiscard]] bool is_refuted(const Finding& finding, const Pairs& pairs);

/// All problems, causes before effects. Failures of pairs come first, those of the earliest step
/// before others, each after the findings that explain it; then bad findings that explain no pair.
/// Slow pairs follow in the same way, then slow findings that explain no pair, and refuted findings
/// last. Within these rules `findings` keep the order of all_checks(). A finding about one NIC or
/// device explains only its pairs.
[[nodiscard]] std::vector<Cause> rank(const Pairs& pairs, std::span<const Finding> findings);

/// The names of all checks in the table of checks_of().
[[nodiscard]] std::vector<std::string_view> ranked_checks();

}  // namespace hbmwire::tools::doctor
