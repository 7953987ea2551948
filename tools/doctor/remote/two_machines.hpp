// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/common/output.hpp"
#include "tools/doctor/checks/finding.hpp"
#include "tools/doctor/evidence/record.hpp"
#include "tools/doctor/pairs/pair.hpp"
#include "tools/doctor/remote/differences.hpp"
#include "tools/doctor/remote/link_pair.hpp"
#include "tools/doctor/report/ranking.hpp"
#include "tools/doctor/report/report.hpp"
#include "tools/doctor/report/verdict.hpp"

namespace hbmwire::tools::doctor {

/// One of two machines: its facts, and why it has no NIC to try.
struct Machine {
  std::optional<Record> facts;  ///< none: it was lost before
  std::optional<PairError> no_nics;
};

/// All that was found of two machines and the way between them.
struct TwoMachines {
  std::string peer = {};          ///< the other one's name, as the user gave it
  std::vector<Finding> way = {};  ///< of way.hpp and datagrams.hpp
  /// None of both: the other machine was not reached.
  std::optional<Machine> here = {};
  std::optional<Machine> there = {};
  LinkPairs pairs = {};
  std::string lost = {};  ///< why the other doctor was lost before all was done; empty: it was not
};

/// The report of the doctor on two machines.
struct TwoReport {
  std::string peer = {};
  bool emulated = false;
  bool reached = false;
  std::vector<Finding> way = {};
  std::vector<Finding> here = {};
  std::vector<Finding> there = {};
  LinkPairs pairs = {};
  std::optional<PairError> no_nics_here = {};
  std::optional<PairError> no_nics_there = {};
  std::vector<Difference> differences = {};
  std::string lost = {};
  Conclusion conclusion = {};
  std::vector<Cause> causes = {};  ///< of the way, of this machine, and of the other one
  Json machine_here = {};          ///< the call "info"; null: it can't be had
  Json machine_there = {};
};

[[nodiscard]] TwoReport report_on(TwoMachines machines);

/// As of one machine: verdict, matrices, causes, differences, and the checks side by side.
[[nodiscard]] std::vector<std::string> report_lines(const TwoReport& report,
                                                    const ReportStyle& style);

/// docs/doctor.md has its members.
[[nodiscard]] Json to_json(const TwoReport& report);

}  // namespace hbmwire::tools::doctor
