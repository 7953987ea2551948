// SPDX-License-Identifier: MIT

#include "tools/doctor/checks/hardware.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/checks/rules.hpp"
#include "tools/doctor/evidence/pci_config.hpp"

namespace hbmwire::tools::doctor::rules {
namespace {

enum class Nearness { pix, phb, node, sys, unknown };

struct Nearest {
  Nearness how = Nearness::unknown;
  std::string nic;
};

// The file holds "-1" if the firmware does not say which node a device is near.
std::optional<std::uint64_t> numa_node_of(Evidence& machine, const std::string& address) {
  return leading_number(read_line(machine, pci_path(address, "numa_node")).value);
}

Nearness nearness(Evidence& machine, const std::string& card, const std::string& nic) {
  const auto a = place_of(machine, card);
  const auto b = place_of(machine, nic);
  if (!a || !b) return Nearness::unknown;
  if (shared_depth(*a, *b) > 0) return Nearness::pix;
  if (a->host_bridge == b->host_bridge) return Nearness::phb;
  const auto node_a = numa_node_of(machine, card);
  const auto node_b = numa_node_of(machine, nic);
  if (!node_a || !node_b) return Nearness::unknown;
  return *node_a == *node_b ? Nearness::node : Nearness::sys;
}

Finding judge_place(const Card& card, const Nearest& nearest, std::optional<bool> guest) {
  Finding finding{.check = "topology",
                  .subject = card.pci_address,
                  .source = "realpath of /sys/bus/pci/devices/" + card.pci_address,
                  .found = {},
                  .wanted = "a NIC below the same PCIe switch (PIX)",
                  .remedy = "move the NIC or the card to a slot of one PCIe switch"};
  switch (nearest.how) {
    case Nearness::pix:
      finding.verdict = Verdict::good;
      finding.found = "PIX: a switch to " + nearest.nic;
      finding.remedy = {};
      return finding;
    case Nearness::phb:
      finding.verdict = Verdict::slow;
      finding.found = "PHB: over a host bridge of the CPU to " + nearest.nic;
      break;
    case Nearness::node:
      finding.verdict = Verdict::slow;
      finding.found = "NODE: over two host bridges of one NUMA node to " + nearest.nic;
      break;
    case Nearness::sys:
      finding.verdict = Verdict::bad;
      finding.found = "SYS: over the link between the sockets to " + nearest.nic;
      break;
    case Nearness::unknown:
      finding.found = "not where the card and its NICs are";
      finding.remedy = {};
      break;
  }
  // A hypervisor shows switches that it made up.
  if (guest.value_or(true)) {
    finding.verdict = Verdict::unknown;
    finding.found += guest ? ", as the hypervisor shows it" : ", or as a hypervisor shows it";
    finding.remedy = guest ? "hbmwire doctor on the host" : "";
  }
  return finding;
}

}  // namespace

Findings topology(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  const auto guest = hardware.emulated ? std::optional(false) : is_guest(machine);
  Findings findings;
  for (const Card& card : hardware.cards) {
    std::optional<Nearest> nearest;
    bool all_seen = !hardware.nics_gap;
    for (const Nic& nic : hardware.nics) {
      if (nic.pci_address.empty()) continue;
      const Nearness how = nearness(machine, card.pci_address, nic.pci_address);
      all_seen = all_seen && how != Nearness::unknown;
      if (!nearest || how < nearest->how) nearest = Nearest{.how = how, .nic = nic.name};
    }
    // A NIC without a known place may be nearer than all others.
    if (nearest && nearest->how != Nearness::pix && !all_seen) nearest->how = Nearness::unknown;
    if (nearest) findings.push_back(judge_place(card, *nearest, guest));
  }
  return findings;
}

}  // namespace hbmwire::tools::doctor::rules
