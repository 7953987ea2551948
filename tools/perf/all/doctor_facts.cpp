// SPDX-License-Identifier: MIT
#include "tools/perf/all/doctor_facts.hpp"

#include <fmt/format.h>

#include "tools/doctor/checks/finding.hpp"
#include "tools/doctor/checks/hardware.hpp"
#include "tools/doctor/evidence/live_machine.hpp"

namespace hbmwire::tools::perf::all {
namespace {

using doctor::Finding;

/// Subjects are names and addresses, with more behind a space: "mlx5_0 port 1".
bool is_about(const Finding& finding, const std::string& thing) {
  return !thing.empty() && (finding.subject == thing || finding.subject.starts_with(thing + " "));
}

}  // namespace

std::vector<std::string> doctor_facts(const std::string& nic, const std::string& pci_address) {
  doctor::LiveMachine machine;
  const std::string name = nic.substr(0, nic.find(':'));
  std::string nic_address;
  for (const doctor::Nic& each : doctor::hardware_of(machine).nics) {
    if (each.name == name) nic_address = each.pci_address;
  }
  std::vector<std::string> facts;
  for (const Finding& finding : doctor::run_checks(machine)) {
    if (finding.verdict != doctor::Verdict::slow && finding.verdict != doctor::Verdict::bad)
      continue;
    if (!is_about(finding, name) && !is_about(finding, nic_address) &&
        !is_about(finding, pci_address))
      continue;
    facts.push_back(fmt::format("{}: {} is {}, wanted: {}", finding.check, finding.subject,
                                finding.found, finding.wanted));
  }
  return facts;
}

}  // namespace hbmwire::tools::perf::all
