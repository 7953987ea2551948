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

/// The state of the whole machine.
enum class Health {
  well,     ///< every pair was verified, and no check found a fault
  broken,   ///< a pair or a check shows that something does not work
  slow,     ///< everything works, but some of it slowly
  untried,  ///< no fault is known, but not everything could be tried
};

/// "well", "broken", "slow", "untried".
[[nodiscard]] std::string_view to_string(Health health) noexcept;

/// The verdict on the machine, in a sentence.
struct Conclusion {
  Health health = Health::well;
  std::string sentence;
  int exit_code = 0;
};

/// The counts of the findings that matter for the verdict.
struct Faults {
  std::size_t bad = 0;       ///< findings that make something fail
  std::size_t costs = 0;     ///< findings that cost speed
  bool none_judged = false;  ///< no check applies
  bool nics_hidden = false;  ///< it is unknown whether there is a NIC
  bool no_hardware = false;  ///< there is neither a NIC nor an accelerator
};

/// Whether a finding says that the machine has no NIC, rather than a NIC that does not work. A
/// machine without a NIC can be well.
[[nodiscard]] bool is_absence(const Finding& finding);

/// Counts the findings, without absences (is_absence()) and without faults that the pairs refute.
/// `pairs` is null for a quick look.
[[nodiscard]] Faults faults_in(std::span<const Finding> findings, const Pairs* pairs);

/// `pairs` is null for a quick look. If pairs were tried, slow findings are only advice, since the
/// measured rates decide, and unknown findings do not count. `kind`: the noun for pairs, after a
/// number.
[[nodiscard]] Conclusion conclude(const Pairs* pairs, const Faults& faults, bool emulated,
                                  std::string_view kind = "pairs of memory and NIC");

/// Counts the findings of one machine by faults_in(), and concludes from these. `cards`: the number
/// of accelerators that the checks see.
[[nodiscard]] Conclusion conclude(const std::optional<Pairs>& pairs,
                                  std::span<const Finding> findings, bool emulated,
                                  std::size_t cards = 0);

}  // namespace hbmwire::tools::doctor
