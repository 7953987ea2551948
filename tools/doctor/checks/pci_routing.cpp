// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tools/doctor/checks/hardware.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/checks/rules.hpp"
#include "tools/doctor/evidence/pci_config.hpp"

namespace hbmwire::tools::doctor::rules {
namespace {

// ACS control register, PCI Express base specification 7.7.11.3.
constexpr std::size_t kAcsControl = 6;
constexpr std::uint16_t kRedirects =
    0x1C;  // P2P request and completion redirect, upstream forwarding
constexpr std::uint16_t kDirectTranslated = 0x40;
constexpr std::array<std::string_view, 7> kAcsBits{"SV", "TB", "RR", "CR", "UF", "EC", "DT"};

// ATS control register, 10.5.1.3.
constexpr std::size_t kAtsControl = 6;
constexpr std::uint16_t kAtsEnabled = 0x8000;

std::string acs_words(std::uint16_t control) {
  std::vector<std::string_view> on;
  for (std::size_t i = 0; i < kAcsBits.size(); ++i) {
    if (((unsigned{control} >> i) & 1U) != 0) on.push_back(kAcsBits[i]);
  }
  return on.empty() ? "all off" : fmt::format("{} on", fmt::join(on, ", "));
}

// The unknown finding for an extended capability that is hidden: the kernel shows these only to
// processes with CAP_SYS_ADMIN.
Finding hidden(std::string check, const std::string& address, const PciConfig& config,
               std::string wanted) {
  Finding finding = unknown_for(std::move(check), address, pci_path(address, "config"),
                                config.error() == 0 ? EPERM : config.error(), std::move(wanted));
  if (config.error() == 0)
    finding.found = fmt::format("{} bytes of its configuration space", config.bytes().size());
  return finding;
}

// The ACS control register; empty if the bridge has none or it is hidden.
std::optional<std::uint16_t> acs_control(const PciConfig& config) {
  const PciCapability acs = config.find_extended(kAcsExtended);
  return acs.is_found() ? config.u16(acs.offset + kAcsControl) : std::nullopt;
}

// Whether the machine serves virtual machines; empty if that cannot be seen.
std::optional<bool> serves_guests(Evidence& machine) {
  const auto guest = is_guest(machine);
  const auto host = is_virtualisation_host(machine);
  if (guest.value_or(false) || host.value_or(false)) return true;
  return guest && host ? std::optional(false) : std::nullopt;
}

std::vector<std::string> bridges_between(Evidence& machine, const Hardware& hardware) {
  std::vector<std::string> bridges;
  for (const Neighbours& pair : neighbours_in(machine, hardware)) {
    for (const std::string& bridge : pair.bridges) {
      if (std::ranges::find(bridges, bridge) == bridges.end()) bridges.push_back(bridge);
    }
  }
  return bridges;
}

Finding judge_acs(Evidence& machine, const std::string& bridge, std::optional<bool> serves_guests) {
  const bool for_guests = serves_guests.value_or(false);
  const std::string wanted =
      for_guests ? "with redirection also DT, for devices with ATS" : "RR, CR and UF off";
  const PciConfig config = PciConfig::read(machine, bridge);
  const PciCapability acs = config.find_extended(kAcsExtended);
  const auto control = acs_control(config);
  if (acs.state == PciCapability::State::unknown || (acs.is_found() && !control))
    return hidden("acs", bridge, config, wanted);
  Finding finding{.check = "acs",
                  .subject = bridge,
                  .verdict = Verdict::good,
                  .source = pci_path(bridge, "config"),
                  .found = control ? acs_words(*control) : "no ACS",
                  .wanted = wanted,
                  .remedy = {}};
  if (!control || (*control & kRedirects) == 0) return finding;
  // It is not known whether there are guests. Redirection with DT is right for them, and else
  // wrong.
  if (!serves_guests && (*control & kDirectTranslated) != 0)
    return unknown_for("acs", bridge, "/proc/cpuinfo, /sys/bus/pci/drivers/vfio-pci", EACCES,
                       "whether redirection keeps virtual machines apart");
  // ACS isolates virtual machines from each other, and must stay on for them.
  if (for_guests) {
    if ((*control & kDirectTranslated) != 0) return finding;
    finding.remedy = fmt::format("setpci -s {} ECAP_ACS+0x6.w=0040:0040, on the host", bridge);
  } else {
    finding.remedy = fmt::format(
        "setpci -s {0} ECAP_ACS+0x6.w=0 until the next boot; for good pci=disable_acs_redir={0} on "
        "the kernel's command line, or ACS off in the BIOS",
        bridge);
  }
  finding.verdict = Verdict::slow;
  return finding;
}

// The type of a device's IOMMU group; ENOENT if it has no group.
Answer iommu_type(Evidence& machine, const std::string& address, std::string& source) {
  source = pci_path(address, "iommu_group");
  const Answer group = machine.link(source);
  if (group.error != 0) return group;
  source = "/sys/kernel/iommu_groups/" + base_name(group.value) + "/type";
  Answer type = read_line(machine, source);
  // A group without a type means a kernel older than this file. The state is then unknown, rather
  // than "no IOMMU".
  if (type.error == ENOENT) type.error = ENODATA;
  return type;
}

bool translates(const Answer& type) { return type.error == 0 && type.value.starts_with("DMA"); }

// Whether bridges between cards and NICs redirect traffic, although no guest needs that; empty if
// that cannot be seen.
std::optional<bool> is_redirected(Evidence& machine, const Hardware& hardware) {
  const auto bridges = bridges_between(machine, hardware);
  const auto for_guests = serves_guests(machine);
  if (bridges.empty() || !for_guests.value_or(true)) return false;
  bool all_seen = for_guests.has_value();
  for (const std::string& bridge : bridges) {
    const PciConfig config = PciConfig::read(machine, bridge);
    const auto control = acs_control(config);
    const bool redirects = (control.value_or(0) & kRedirects) != 0;
    if (redirects && for_guests) return true;  // `for_guests` is false here, and not unknown
    const bool hidden =
        !control && config.find_extended(kAcsExtended).state != PciCapability::State::absent;
    all_seen = all_seen && !hidden && !redirects;
  }
  return all_seen ? std::optional(false) : std::nullopt;
}

Finding judge_ats(Evidence& machine, const Nic& nic) {
  const std::string wanted = "on, where ACS or the IOMMU sends traffic to the CPU";
  const PciConfig config = PciConfig::read(machine, nic.pci_address);
  const PciCapability ats = config.find_extended(kAtsExtended);
  const auto control = ats.is_found() ? config.u16(ats.offset + kAtsControl) : std::nullopt;
  if (ats.state == PciCapability::State::unknown || (ats.is_found() && !control))
    return hidden("ats", nic.pci_address, config, wanted);
  const bool on = control && (*control & kAtsEnabled) != 0;
  Finding finding{.check = "ats",
                  .subject = nic.pci_address,
                  .verdict = on ? Verdict::good : Verdict::slow,
                  .source = pci_path(nic.pci_address, "config"),
                  .found = on        ? "on"
                           : control ? "off"
                                     : "no ATS",
                  .wanted = wanted,
                  .remedy = {}};
  if (!on) {
    finding.remedy =
        nic.driver == "mlx5_core"
            ? fmt::format("mlxconfig -d {} set ATS_ENABLED=true, and restart the machine",
                          nic.pci_address)
            : "switch ATS on in the NIC's firmware";
  }
  return finding;
}

// The finding if no device has an IOMMU group; empty if the machine has IOMMUs nevertheless.
std::optional<Finding> judge_units(Evidence& machine, const std::string& wanted) {
  const std::string source = "/sys/class/iommu";
  const Names units = machine.folder(source);
  const int error = error_below(machine, "/sys/class", units.error);
  if (is_unread(error)) return unknown_for("iommu", "", source, error, wanted);
  if (!units.values.empty()) return std::nullopt;
  return Finding{.check = "iommu",
                 .subject = {},
                 .verdict = Verdict::good,
                 .source = source,
                 .found = "off",
                 .wanted = wanted,
                 .remedy = {}};
}

}  // namespace

Findings iommu(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  if (hardware.cards.empty()) return {};
  const std::string wanted = "off, or identity";
  Findings findings;
  for (const std::string& address : pci_addresses(hardware)) {
    std::string source;
    const Answer type = iommu_type(machine, address, source);
    if (type.error == ENOENT) continue;
    if (type.error != 0) {
      findings.push_back(unknown_for("iommu", address, source, type.error, wanted));
      continue;
    }
    const bool slow = translates(type);
    findings.push_back(
        {.check = "iommu",
         .subject = address,
         .verdict = slow ? Verdict::slow : Verdict::good,
         .source = source,
         .found = type.value,
         .wanted = wanted,
         .remedy = slow ? "iommu=pt on the kernel's command line, and a reboot" : ""});
  }
  // No device has a group: there is no IOMMU, or it is off.
  if (findings.empty()) {
    if (auto off = judge_units(machine, wanted)) findings.push_back(std::move(*off));
  }
  return findings;
}

Findings acs(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  const auto for_guests = serves_guests(machine);
  for (const std::string& bridge : bridges_between(machine, hardware))
    findings.push_back(judge_acs(machine, bridge, for_guests));
  return findings;
}

Findings ats(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  if (hardware.cards.empty()) return findings;
  const auto redirected = is_redirected(machine, hardware);
  for (const Nic& nic : hardware.nics) {
    if (nic.pci_address.empty()) continue;
    std::string source;
    const Answer type = iommu_type(machine, nic.pci_address, source);
    if (redirected.value_or(false) || translates(type)) {
      findings.push_back(judge_ats(machine, nic));
    } else if (type.error != 0 && type.error != ENOENT) {
      findings.push_back(
          unknown_for("ats", nic.pci_address, source, type.error, "whether the IOMMU translates"));
    } else if (!redirected) {
      findings.push_back(unknown_for("ats", nic.pci_address, "config of the bridges", EPERM,
                                     "whether ACS redirects between virtual machines"));
    }
  }
  return findings;
}

}  // namespace hbmwire::tools::doctor::rules
