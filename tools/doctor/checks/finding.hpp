// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/evidence/evidence.hpp"

namespace hbmwire::tools::doctor {

enum class Verdict {
  good,     ///< the check saw the wanted state
  slow,     ///< works, but slower than it could
  bad,      ///< does not work
  unknown,  ///< could not be determined: this user has no right to read it, or the machine does not
            ///< report it
};

/// "good", "slow", "bad", "unknown".
[[nodiscard]] std::string_view to_string(Verdict verdict) noexcept;

/// The result of one check for one thing.
struct Finding {
  std::string check;    ///< the check's name: "acs"
  std::string subject;  ///< the thing: "0000:3a:00.0", "mlx5_0 port 1"; empty for the machine
  Verdict verdict = Verdict::unknown;
  std::string source;  ///< the file or call that was read:
                       ///< "/sys/class/infiniband/mlx5_0/ports/1/state"
  std::string found;   ///< its contents: "1: DOWN"
  std::string wanted;  ///< "4: ACTIVE"; for an unknown finding, the thing that would answer it
  std::string remedy;  ///< the command or step that mends it; empty if there is nothing to do
};

/// The hardware that a check depends on.
struct Concerns {
  bool nics = false;
  bool cards = false;
  bool places = false;         ///< the check needs the places of NICs and cards on PCI
  bool real_hardware = false;  ///< the check does not apply to emulated hardware
};

/// A rule about machines.
struct Check {
  std::string_view name;
  std::string_view what;  ///< a line for docs and help: "the port is active"
  std::vector<Finding> (*rule)(Evidence& machine);
  Concerns concerns = {};

  /// Runs the rule. A check for hardware that the machine does not have gives no findings. If part
  /// of the hardware could not be seen, or if the rule finds nothing and could not read everything,
  /// the result contains an unknown finding.
  [[nodiscard]] std::vector<Finding> run(Evidence& machine) const;
};

/// All checks. Causes come before effects: abilities of the kernel, settings of the hardware,
/// rights of the user, and last the causes of low speed.
[[nodiscard]] std::span<const Check> all_checks() noexcept;

/// The findings of all checks, in the order of all_checks().
[[nodiscard]] std::vector<Finding> run_checks(Evidence& machine);

/// The number of accelerators that the checks see.
[[nodiscard]] std::size_t cards_seen(Evidence& machine);

}  // namespace hbmwire::tools::doctor
