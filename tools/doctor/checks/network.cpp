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
// Bytes of a packet with a payload of 4096 bytes and the headers of RoCE.
constexpr std::uint64_t kFullInterfaceMtu = 4200;

std::string interface_words(Evidence& machine, const Port& port) {
  const std::string name = interface_of(machine, port).name;
  return name.empty() ? "INTERFACE" : name;
}

// The rate of a port. Ports of NICs of the same model (PCI device id) should have the same rate.
struct Speed {
  int error = 0;           // errno of the first file that could not be read
  std::string source;      // that file
  std::string model;       // empty if not on PCI
  std::uint64_t rate = 0;  // Gb/s
};

Speed speed_of(Evidence& machine, const Port& port) {
  Speed speed;
  const auto line = [&](const std::string& path) {
    Answer answer = read_line(machine, path);
    if (speed.error == 0 && is_unread(answer.error)) {
      speed.error = answer.error;
      speed.source = path;
    }
    return std::move(answer.value);
  };
  speed.rate = leading_number(line(port.folder + "/rate")).value_or(0);
  if (port.nic->pci_address.empty()) return speed;
  speed.model = line(pci_path(port.nic->pci_address, "vendor")) +
                line(pci_path(port.nic->pci_address, "device"));
  return speed;
}

// The best rate among the ports of NICs of the same model.
Speed best_of_like(Evidence& machine, const Speed& own, const std::vector<Port>& ports) {
  Speed best = own;
  for (const Port& other : ports) {
    if (!other.active && !is_unread(other.state.error)) continue;
    Speed speed = speed_of(machine, other);
    if (is_unread(other.state.error)) {
      speed.error = other.state.error;
      speed.source = other.folder + "/state";
    }
    if (best.error == 0 && speed.error != 0) {
      best.error = speed.error;
      best.source = speed.source;
    }
    if (other.active && !own.model.empty() && speed.model == own.model)
      best.rate = std::max(best.rate, speed.rate);
  }
  return best;
}

std::string inactive_remedy(Evidence& machine, const Port& port, const std::string& physical) {
  // The emulation gives each link a file, and uses the machine's loopback as interface: neither can
  // be judged.
  if (hardware_of(machine).emulated)
    return fmt::format("hbmwire emulate --link {}/{}=up", port.nic->name, port.number);
  if (port.ethernet)
    return fmt::format("ip link set dev {} up, and check cable and switch",
                       interface_words(machine, port));
  if (is_unread(port.link_layer.error)) return "check cable and switch";
  // In the state "5: LinkUp" the cable is connected, but no subnet manager has configured the port.
  return physical.starts_with("5:") ? "start a subnet manager (opensm) on this subnet"
                                    : "check cable and switch (ibstat, iblinkinfo)";
}

const std::string kActive = "4: ACTIVE, 5: LinkUp";

// All ports, and findings about NICs whose ports cannot be listed.
struct AllPorts {
  std::vector<Port> ports;
  Findings hidden;
};

Finding judge_inactive(Evidence& machine, const Port& port, const AllPorts& all,
                       const Answer& physical) {
  const auto is_hidden = [](const Port& other) { return is_unread(other.state.error); };
  const bool others = std::ranges::any_of(all.ports, &Port::active);
  const bool all_seen = all.hidden.empty() && std::ranges::none_of(all.ports, is_hidden);
  // A port that cannot be seen may be the one that works.
  const bool is_bad = !others && all_seen;
  return {.check = "port",
          .subject = port.subject,
          .verdict = is_bad ? Verdict::bad : Verdict::slow,
          .source = port.folder + "/state",
          .found = port.state.value + (physical.error == 0 ? ", " + physical.value : ""),
          .wanted = kActive,
          .remedy = inactive_remedy(machine, port, physical.value)};
}

Finding judge_rate(Evidence& machine, const Port& port, const AllPorts& all, Finding finding) {
  const Speed own = speed_of(machine, port);
  const Speed best = best_of_like(machine, own, all.ports);
  if (own.error == 0 && own.rate < best.rate) {
    finding.verdict = Verdict::slow;
    finding.wanted = fmt::format("{} Gb/sec, as a NIC of the same kind has", best.rate);
    finding.remedy = "check cable, transceiver and the switch port's speed";
    return finding;
  }
  const std::string wanted = "the rates of all ports";
  const Speed& hidden = own.error != 0 ? own : best;
  if (hidden.error != 0)
    return unknown_for(finding.check, finding.subject, hidden.source, hidden.error, wanted);
  if (all.hidden.empty()) return finding;
  Finding unknown = all.hidden.front();
  unknown.subject = finding.subject;
  unknown.wanted = wanted;
  return unknown;
}

Finding judge_port(Evidence& machine, const Port& port, const AllPorts& all) {
  Finding finding{.check = "port",
                  .subject = port.subject,
                  .verdict = Verdict::good,
                  .source = port.folder + "/state",
                  .found = {},
                  .wanted = kActive,
                  .remedy = {}};
  const auto hidden = [&](const std::string& file, int error) {
    return unknown_for(finding.check, finding.subject, port.folder + "/" + file, error,
                       finding.wanted);
  };
  if (port.state.error != 0) return hidden("state", port.state.error);
  const Answer physical = read_line(machine, port.folder + "/phys_state");
  if (!port.active) return judge_inactive(machine, port, all, physical);
  if (port.link_layer.error != 0) return hidden("link_layer", port.link_layer.error);
  if (is_unread(physical.error)) return hidden("phys_state", physical.error);
  finding.found = port.state.value + ", " + physical.value;
  const Answer lid = read_line(machine, port.folder + "/lid");
  if (!port.ethernet && is_unread(lid.error)) return hidden("lid", lid.error);
  if (!port.ethernet && lid.value == "0x0") {
    finding.verdict = Verdict::bad;
    finding.found += ", lid 0x0";
    finding.remedy = "start a subnet manager (opensm) on this subnet";
    return finding;
  }
  finding.found += ", " + read_line(machine, port.folder + "/rate").value;
  return judge_rate(machine, port, all, std::move(finding));
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
  // The wanted address may be among those that could not be read.
  if (error != 0)
    return unknown_for(finding.check, finding.subject, finding.source, error, finding.wanted);
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
  AllPorts all;
  all.ports = ports_of(machine, hardware, "port", all.hidden);
  Findings findings = all.hidden;
  for (const Port& port : all.ports) findings.push_back(judge_port(machine, port, all));
  return findings;
}

Findings gids(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  for (const Port& port : active_ports(machine, hardware, "gids", findings))
    findings.push_back(judge_gids(machine, port));
  return findings;
}

Findings mtu(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  for (const Port& port : active_ports(machine, hardware, "mtu", findings)) {
    if (port.nic->listed) findings.push_back(judge_mtu(machine, port));
  }
  return findings;
}

// An administrator creates these folders. Without them RDMA-CM uses the kernel's default, RoCE v2.
Findings rdma_cm(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  for (const Port& port : ports_of(machine, hardware, "rdma-cm", findings)) {
    const std::string source = fmt::format(
        "/sys/kernel/config/rdma_cm/{}/ports/{}/default_roce_mode", port.nic->name, port.number);
    Answer mode = read_line(machine, source);
    const bool may_be_ethernet = port.ethernet || is_unread(port.link_layer.error);
    if (!may_be_ethernet || mode.error == ENOENT) continue;
    if (!port.ethernet) mode.error = port.link_layer.error;
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
