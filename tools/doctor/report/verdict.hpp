// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
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

/// The findings of checks, as far as they count.
struct Faults {
  std::size_t bad = 0;       ///< make something fail
  std::size_t costs = 0;     ///< cost speed
  bool none_judged = false;  ///< no check applies
  bool nics_hidden = false;  ///< whether there is a NIC can't be seen
  bool no_hardware = false;  ///< there is neither a NIC nor an accelerator
};

/// Whether a finding says that the machine has no NIC, as opposed to one that does not work. A
/// machine can be well without.
[[nodiscard]] bool is_absence(const Finding& finding);

/// An absence does not count, nor does a fault that the pairs refute. `pairs`: null of a quick
/// look.
[[nodiscard]] Faults faults_in(std::span<const Finding> findings, const Pairs* pairs);

/// `pairs`: null of a quick look. Where pairs were tried, what checks find slow is advice, since
/// the pairs' own figures tell; findings that are unknown count for nothing. `kind`: what the pairs
/// are, after a number.
[[nodiscard]] Conclusion conclude(const Pairs* pairs, const Faults& faults, bool emulated,
                                  std::string_view kind = "pairs of memory and NIC");

/// The same of one machine and all that its checks found. `cards`: accelerators that they know of.
[[nodiscard]] Conclusion conclude(const std::optional<Pairs>& pairs,
                                  std::span<const Finding> findings, bool emulated,
                                  std::size_t cards = 0);

}  // namespace hbmwire::tools::doctor
