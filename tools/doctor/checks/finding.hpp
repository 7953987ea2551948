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
  good,     ///< was seen to be as wanted
  slow,     ///< works, and costs speed
  bad,      ///< does not work
  unknown,  ///< could not be found out: no right to read it, or this machine does not tell
};

/// "good", "slow", "bad", "unknown".
[[nodiscard]] std::string_view to_string(Verdict verdict) noexcept;

/// The result of one check for one thing.
struct Finding {
  std::string check;    ///< the check's name: "acs"
  std::string subject;  ///< what it concerns: "0000:3a:00.0", "mlx5_0 port 1"; empty: the machine
  Verdict verdict = Verdict::unknown;
  std::string source;  ///< the file or call that told: "/sys/class/infiniband/mlx5_0/ports/1/state"
  std::string found;   ///< what it said: "1: DOWN"
  std::string wanted;  ///< "4: ACTIVE"; of an unknown finding what would tell
  std::string remedy;  ///< the command or the step that mends it; empty where nothing is to be done
};

/// The hardware that a check depends on.
struct Concerns {
  bool nics = false;
  bool cards = false;
  bool places = false;         ///< where NICs and cards are on PCI
  bool real_hardware = false;  ///< it says nothing of emulated hardware
};

/// A rule about machines.
struct Check {
  std::string_view name;
  std::string_view what;  ///< a line for docs and help: "the port is active"
  std::vector<Finding> (*rule)(Evidence& machine);
  Concerns concerns = {};

  /// The findings of the rule. A check that does not apply (no such hardware) gives no finding. But
  /// where some of the hardware that it concerns could not be seen, or the rule finds nothing and
  /// could not read all, there is an unknown finding that says so.
  [[nodiscard]] std::vector<Finding> run(Evidence& machine) const;
};

/// All checks, in the order in which causes come: what the kernel can, what the hardware is set to,
/// what the user may, what costs speed.
[[nodiscard]] std::span<const Check> all_checks() noexcept;

/// The findings of all of them, in their order.
[[nodiscard]] std::vector<Finding> run_checks(Evidence& machine);

/// How many accelerators the checks see.
[[nodiscard]] std::size_t cards_seen(Evidence& machine);

}  // namespace hbmwire::tools::doctor
