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

/// One of two machines: its facts, and the reason if it has no NIC to try.
struct Machine {
  std::optional<Record> facts;  ///< empty if the connection was lost before
  std::optional<PairError> no_nics;
};

/// All results about two machines and the network between them.
struct TwoMachines {
  std::string peer = {};          ///< the name of the other machine as the user typed it
  std::vector<Finding> way = {};  ///< findings of way.hpp and datagrams.hpp
  /// Both are empty if the other machine was not reached.
  std::optional<Machine> here = {};
  std::optional<Machine> there = {};
  LinkPairs pairs = {};
  std::string lost = {};  ///< why the connection to the other doctor was lost early; empty if it
                          ///< was not
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
  std::vector<Cause> causes = {};  ///< of the network, of this machine, and of the other one
  Json machine_here = {};          ///< the call "info"; null if unknown
  Json machine_there = {};
};

[[nodiscard]] TwoReport report_on(TwoMachines machines);

/// Like the report on one machine: verdict, matrices, causes, differences, and the checks side by
/// side.
[[nodiscard]] std::vector<std::string> report_lines(const TwoReport& report,
                                                    const ReportStyle& style);

/// docs/doctor.md lists the members.
[[nodiscard]] Json to_json(const TwoReport& report);

}  // namespace hbmwire::tools::doctor
