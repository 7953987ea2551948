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

/// Something that is wrong: what a check found, or what became of pairs. One of the two is there.
struct Cause {
  std::optional<Finding> finding = {};
  std::optional<PairError> error = {};
  std::vector<std::string> pairs =
      {};                ///< "gaudi 0 - emu0": those that it explains, or that ended so
  bool slow = false;     ///< it works, and costs speed
  bool refuted = false;  ///< is_refuted()
};

/// The name of a pair.
[[nodiscard]] std::string name_of(const Pair& pair);

/// The checks that may say why a step failed with a hint, the likeliest first.
[[nodiscard]] std::vector<std::string_view> checks_of(std::string_view step, std::string_view hint);

/// The step of pairs that work slowly, for checks_of().
inline constexpr std::string_view kSlowStep = "slow";

/// Whether a fault that a check found is one of those that make pairs fail, and no pair that it is
/// about fails in such a way:  a bridge that would send peers' traffic to the CPU, in a machine
/// where all of that traffic arrives. On emulated hardware every fault, since sysfs shows no more
/// of it than programs need.
[[nodiscard]] bool is_refuted(const Finding& finding, const Pairs& pairs);

/// Everything that is wrong, causes before their effects: of the pairs' failures the ones at the
/// earliest step first, before each of them the findings that explain it; then what is only slow,
/// likewise; then findings that explain no pair, those that are refuted last. `findings` are in the
/// order of all_checks(), which decides where nothing else does. A finding about one NIC or device
/// explains pairs of that alone.
[[nodiscard]] std::vector<Cause> rank(const Pairs& pairs, std::span<const Finding> findings);

/// The names of all checks that the table of checks_of() knows.
[[nodiscard]] std::vector<std::string_view> ranked_checks();

}  // namespace hbmwire::tools::doctor
