// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tools/doctor/checks/finding.hpp"
#include "tools/doctor/pairs/pair.hpp"

namespace hbmwire::tools::doctor {

/// The machine as a whole.
enum class Health {
  well,     ///< every pair was verified, and no check found a fault
  broken,   ///< a pair or a check says that something does not work
  slow,     ///< all of it works, some of it slowly
  untried,  ///< nothing is known to be wrong, and not all could be tried
};

/// "well", "broken", "slow", "untried".
[[nodiscard]] std::string_view to_string(Health health) noexcept;

/// The machine in a sentence.
struct Conclusion {
  Health health = Health::well;
  std::string sentence;
  int exit_code = 0;
};

/// `pairs`: none of a quick look. Where pairs were tried, what checks find slow is advice, since
/// the pairs' own figures tell, and a fault that they refute counts for nothing; neither do
/// findings that are unknown.
[[nodiscard]] Conclusion conclude(const std::optional<Pairs>& pairs,
                                  std::span<const Finding> findings, bool emulated);

}  // namespace hbmwire::tools::doctor
