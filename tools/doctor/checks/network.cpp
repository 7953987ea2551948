// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tools/doctor/checks/ports.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/checks/rules.hpp"
#include "tools/doctor/evidence/pci_config.hpp"

namespace hbmwire::tools::doctor::rules {
namespace {

constexpr std::uint64_t kFullMtu = 4096;
// With RoCE's headers a packet of 4096 bytes takes so many.
constexpr std::uint64_t kFullInterfaceMtu = 4200;

std::string interface_words(Evidence& machine, const Port& port) {
  const std::string name = interface_of(machine, port);
  return name.empty() ? "INTERFACE" : name;
}

// Ports of like NICs have one rate: the PCI device's id tells which are alike.
std::string model_of(Evidence& machine, const Port& port) {
  if (port.nic->pci_address.empty()) return {};
  return read_line(machine, pci_path(port.nic->pci_address, "vendor")).value +
         read_line(machine, pci_path(port.nic->pci_address, "device")).value;
}

std::uint64_t rate_of(Evidence& machine, const Port& port) {
  return leading_number(read_line(machine, port.folder + "/rate").value).value_or(0);
}

std::uint64_t best_rate_of_like(Evidence& machine, const Port& port,
                                const std::vector<Port>& ports) {
  std::uint64_t best = 0;
  const std::string model = model_of(machine, port);
  for (const Port& other : ports) {
    if (other.active && !model.empty() && model_of(machine, other) == model)
      best = std::max(best, rate_of(machine, other));
  }
  return best;
}

std::string inactive_remedy(Evidence& machine, const Port& port, const std::string& physical) {
  if (port.ethernet)
    return fmt::format("ip link set dev {} up, and check cable and switch",
                       interface_words(machine, port));
  // The cable is in, and no subnet manager has configured the port.
  return physical.starts_with("5:") ? "start a subnet manager (opensm) on this subnet"
                                    : "check cable and switch (ibstat, iblinkinfo)";
}

Finding judge_port(Evidence& machine, const Port& port, const std::vector<Port>& ports) {
  Finding finding{.check = "port",
                  .subject = port.subject,
                  .verdict = Verdict::good,
                  .source = port.folder + "/state",
                  .found = {},
                  .wanted = "4: ACTIVE, 5: LinkUp",
                  .remedy = {}};
  if (port.state.error != 0)
    return unknown_for(finding.check, finding.subject, finding.source, port.state.error,
                       finding.wanted);
  const std::string physical = read_line(machine, port.folder + "/phys_state").value;
  finding.found = port.state.value + ", " + physical;
  if (!port.active) {
    const bool others = std::ranges::any_of(ports, &Port::active);
    finding.verdict = others ? Verdict::slow : Verdict::bad;
    finding.remedy = inactive_remedy(machine, port, physical);
    return finding;
  }
  const std::string lid = read_line(machine, port.folder + "/lid").value;
  if (!port.ethernet && lid == "0x0") {
    finding.verdict = Verdict::bad;
    finding.found += ", lid 0x0";
    finding.remedy = "start a subnet manager (opensm) on this subnet";
    return finding;
  }
  finding.found += ", " + read_line(machine, port.folder + "/rate").value;
  const std::uint64_t best = best_rate_of_like(machine, port, ports);
  if (rate_of(machine, port) < best) {
    finding.verdict = Verdict::slow;
    finding.wanted = fmt::format("{} Gb/sec, as a NIC of the same kind has", best);
    finding.remedy = "check cable, transceiver and the switch port's speed";
  }
  return finding;
}

bool is_link_local(const Gid& gid) { return gid.address.starts_with("fe80:"); }

Finding judge_gids(Evidence& machine, const Port& port) {
  int error = 0;
  const auto gids = gids_of(machine, port, error);
  Finding finding{.check = "gids",
                  .subject = port.subject,
                  .verdict = Verdict::bad,
                  .source = port.folder + "/gids",
                  .found = "no GID",
                  .wanted = port.ethernet ? "a RoCE v2 GID that can be routed" : "a GID",
                  .remedy = {}};
  const auto untyped = [](const Gid& gid) { return gid.type.empty(); };
  if (error != 0 && (gids.empty() || (port.ethernet && std::ranges::all_of(gids, untyped))))
    return unknown_for(finding.check, finding.subject, finding.source, error, finding.wanted);
  for (const Gid& gid : gids) {
    const bool is_v2 = gid.type == "RoCE v2";
    if (!port.ethernet || (is_v2 && !is_link_local(gid))) {
      finding.verdict = Verdict::good;
      finding.found =
          fmt::format("{}{} at index {}", port.ethernet ? "RoCE v2 " : "", gid.address, gid.index);
      return finding;
    }
    if (is_v2 || finding.found == "no GID")
      finding.found = is_v2 ? "RoCE v2 of a link-local address only" : "RoCE v1 only";
  }
  finding.remedy = port.ethernet ? fmt::format("ip addr add ADDRESS/PREFIX dev {}",
                                               interface_words(machine, port))
                                 : "start a subnet manager (opensm) on this subnet";
  return finding;
}

Finding judge_mtu(Evidence& machine, const Port& port) {
  const auto active = number_at(told_of(port), "mtu_bytes");
  Finding finding{.check = "mtu",
                  .subject = port.subject,
                  .verdict = Verdict::good,
                  .source = "ibv_query_port(3)",
                  .found = {},
                  .wanted = fmt::format("{}", kFullMtu),
                  .remedy = {}};
  if (!active || *active == 0)
    return unknown_for(finding.check, finding.subject, finding.source, ENODATA, finding.wanted);
  finding.found = fmt::format("{} bytes", *active);
  if (port.ethernet) {
    const std::string interface = interface_words(machine, port);
    const Answer mtu = read_line(machine, "/sys/class/net/" + interface + "/mtu");
    if (mtu.error == 0) finding.found += fmt::format(", {} has {}", interface, mtu.value);
    finding.wanted += fmt::format(
        ", by an interface's MTU of {} or more, at both ends and in between", kFullInterfaceMtu);
  }
  if (*active >= kFullMtu) return finding;
  finding.verdict = Verdict::slow;
  finding.remedy = port.ethernet
                       ? fmt::format("ip link set dev {} mtu 9000", interface_words(machine, port))
                       : "an MTU of 4096 in the subnet manager's partitions (mtu=5)";
  return finding;
}

}  // namespace

Findings port(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  const auto ports = ports_of(machine, hardware);
  Findings findings;
  for (const Nic& nic : hardware.nics) {
    const std::string folder = "/sys/class/infiniband/" + nic.name + "/ports";
    if (const int error = machine.folder(folder).error; is_forbidden(error))
      findings.push_back(unknown_for("port", nic.name, folder, error, "the state of its ports"));
  }
  for (const Port& port : ports) findings.push_back(judge_port(machine, port, ports));
  return findings;
}

Findings gids(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  for (const Port& port : ports_of(machine, hardware)) {
    if (port.active) findings.push_back(judge_gids(machine, port));
  }
  return findings;
}

Findings mtu(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  for (const Port& port : ports_of(machine, hardware)) {
    if (port.active && port.nic->listed) findings.push_back(judge_mtu(machine, port));
  }
  return findings;
}

// The folders are there where an administrator made them; else the kernel's default is RoCE v2.
Findings rdma_cm(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  for (const Port& port : ports_of(machine, hardware)) {
    const std::string source = fmt::format(
        "/sys/kernel/config/rdma_cm/{}/ports/{}/default_roce_mode", port.nic->name, port.number);
    const Answer mode = read_line(machine, source);
    if (!port.ethernet || mode.error == ENOENT) continue;
    const std::string wanted = "RoCE v2";
    if (mode.error != 0) {
      findings.push_back(unknown_for("rdma-cm", port.subject, source, mode.error, wanted));
      continue;
    }
    const bool good = mode.value == wanted;
    findings.push_back({.check = "rdma-cm",
                        .subject = port.subject,
                        .verdict = good ? Verdict::good : Verdict::bad,
                        .source = source,
                        .found = mode.value,
                        .wanted = wanted,
                        .remedy = good ? "" : fmt::format("echo 'RoCE v2' > {}", source)});
  }
  return findings;
}

}  // namespace hbmwire::tools::doctor::rules
