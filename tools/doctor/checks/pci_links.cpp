// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "tools/doctor/checks/hardware.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/checks/rules.hpp"
#include "tools/doctor/evidence/pci_config.hpp"

namespace hbmwire::tools::doctor::rules {
namespace {

// Device control register, PCI Express base specification 7.5.3.4. A field n in it means a size of
// 128 << n bytes.
constexpr std::size_t kDeviceControl = 8;
constexpr unsigned kPayloadShift = 5;
constexpr unsigned kReadRequestShift = 12;
constexpr unsigned kSizeMask = 7;
constexpr unsigned kSmallestSize = 128;
constexpr unsigned kLargestSize = 4096;

struct LinkEnd {
  int error = 0;
  std::string source;
  double gigatransfers = 0;  // 0: there is no link
  std::uint64_t lanes = 0;
};

// The number in "16.0 GT/s PCIe": digits, a point, and a digit.
double speed_in(const std::string& text) {
  const auto version = version_in(text);
  constexpr double kTenth = 0.1;
  return version
             ? static_cast<double>(version->first) + kTenth * static_cast<double>(version->second)
             : static_cast<double>(leading_number(text).value_or(0));
}

LinkEnd link_end(Evidence& machine, const std::string& address, std::string_view which) {
  constexpr std::uint64_t kMostLanes = 32;  // a width of 255 means that there is no link
  LinkEnd end{.source = pci_path(address, fmt::format("{}_link_speed", which))};
  const Answer speed = read_line(machine, end.source);
  const Answer width = read_line(machine, pci_path(address, fmt::format("{}_link_width", which)));
  end.error = speed.error != 0 ? speed.error : width.error;
  end.gigatransfers = speed_in(speed.value);
  end.lanes = leading_number(width.value).value_or(0);
  if (end.lanes > kMostLanes || end.lanes == 0 || end.gigatransfers == 0) {
    end.lanes = 0;
    end.gigatransfers = 0;
  }
  return end;
}

std::string link_words(const LinkEnd& end) {
  return fmt::format("{:.1f} GT/s x{}", end.gigatransfers, end.lanes);
}

// GPUs, of NVIDIA and AMD, lower the speed of their link when they are idle.
bool may_rest(Evidence& machine, const std::string& address) {
  const Answer vendor = read_line(machine, pci_path(address, "vendor"));
  return is_unread(vendor.error) || vendor.value == "0x10de" || vendor.value == "0x1002";
}

std::string link_remedy(Evidence& machine, const std::string& address) {
  const Answer policy = read_line(machine, "/sys/module/pcie_aspm/parameters/policy");
  const bool saves_power = policy.value.find("[power") != std::string::npos;
  return fmt::format(
      "reseat the card, and check its slot's speed and lanes in the BIOS (lspci -vv -s {}){}",
      address, saves_power ? "; pcie_aspm=off on the kernel's command line" : "");
}

// Compares a device's link with the best that the device and the bridge above it both support.
std::optional<Finding> judge_link(Evidence& machine, const std::string& address,
                                  const std::string& above, bool emulated) {
  const LinkEnd now = link_end(machine, address, "current");
  LinkEnd can = link_end(machine, address, "max");
  const std::string wanted = "the speed and width that both ends are capable of";
  const int error = now.error != 0 ? now.error : can.error;
  // An emulated device has no link.
  if (emulated && error != 0 && !is_unread(error)) return std::nullopt;
  if (error != 0)
    return unknown_for("link", address, now.error != 0 ? now.source : can.source, error, wanted);
  LinkEnd parent;
  if (!above.empty()) {
    parent = link_end(machine, above, "max");
    if (parent.lanes != 0) {
      can.lanes = std::min(can.lanes, parent.lanes);
      can.gigatransfers = std::min(can.gigatransfers, parent.gigatransfers);
    }
  }
  if (now.lanes == 0 || can.lanes == 0)
    return std::nullopt;  // a virtual function, or a link inside a chip
  Finding finding{.check = "link",
                  .subject = address,
                  .verdict = Verdict::good,
                  .source = now.source,
                  .found = link_words(now),
                  .wanted = link_words(can),
                  .remedy = {}};
  if (now.lanes >= can.lanes && now.gigatransfers >= can.gigatransfers) return finding;
  // The slot may support less than the device.
  if (is_unread(parent.error))
    return unknown_for("link", address, parent.source, parent.error, wanted);
  finding.verdict = Verdict::slow;
  if (now.lanes >= can.lanes && may_rest(machine, address)) {
    finding.verdict = Verdict::unknown;
    finding.found += ", which may be because it rests";
    finding.remedy = "hbmwire doctor without --quick, or lspci -vv while the GPU works";
    return finding;
  }
  finding.remedy = link_remedy(machine, address);
  return finding;
}

struct Sizes {
  unsigned payload = 0;
  unsigned read_request = 0;
};

std::optional<Sizes> sizes_of(const PciConfig& config) {
  const PciCapability express = config.find_capability(kPciExpressCapability);
  const auto control =
      express.is_found() ? config.u16(express.offset + kDeviceControl) : std::nullopt;
  if (!control) return std::nullopt;
  return Sizes{.payload = kSmallestSize << ((*control >> kPayloadShift) & kSizeMask),
               .read_request = kSmallestSize << ((*control >> kReadRequestShift) & kSizeMask)};
}

// A bridge drops packets that are larger than its own maximum payload.
Finding judge_payload(Evidence& machine, const std::string& address, bool is_nic) {
  const std::string source = pci_path(address, "config");
  Finding finding{.check = "payload",
                  .subject = address,
                  .verdict = Verdict::good,
                  .source = source,
                  .found = {},
                  .wanted = "the payload size of the bridges above it",
                  .remedy = {}};
  if (is_nic) finding.wanted += fmt::format(", and read requests of {}", kLargestSize);
  const PciConfig config = PciConfig::read(machine, address);
  const auto own = sizes_of(config);
  std::optional<unsigned> above;
  bool all_seen = own.has_value();
  const auto place = place_of(machine, address);
  all_seen = all_seen && place;
  for (const std::string& bridge : place.value_or(PciPlace{}).devices) {
    if (bridge == address) continue;
    const auto sizes = sizes_of(PciConfig::read(machine, bridge));
    all_seen = all_seen && sizes;
    if (sizes) above = std::min(above.value_or(sizes->payload), sizes->payload);
  }
  if (!own || !all_seen) {
    Finding unknown = unknown_for("payload", address, source,
                                  config.error() == 0 ? EPERM : config.error(), finding.wanted);
    if (config.error() == 0)
      unknown.found = "no capabilities of it, or of a bridge above it, can be seen";
    return unknown;
  }
  finding.found = fmt::format("payload {}, above it {}; read requests {}", own->payload,
                              above.value_or(own->payload), own->read_request);
  if (above && own->payload > *above) {
    finding.verdict = Verdict::bad;
    finding.remedy = "pci=pcie_bus_safe on the kernel's command line, and a reboot";
  } else if (above && own->payload < *above) {
    finding.verdict = Verdict::slow;
    finding.remedy = "pci=pcie_bus_perf on the kernel's command line, and a reboot";
  } else if (is_nic && own->read_request < kLargestSize) {
    finding.verdict = Verdict::slow;
    finding.remedy = fmt::format("setpci -s {} CAP_EXP+8.w=5000:7000", address);
  }
  return finding;
}

}  // namespace

Findings link(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  std::set<std::string> judged;
  for (const std::string& address : pci_addresses(hardware)) {
    const auto place = place_of(machine, address);
    if (!place) continue;
    const auto& devices = place->devices;
    // The chain is root port, upstream port of a switch, its downstream port, ..., device. There is
    // no link between the ports of one switch.
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const bool is_lower_end = i + 1 == devices.size() || i % 2 == 1;
      if (!is_lower_end || !judged.insert(devices[i]).second) continue;
      auto finding =
          judge_link(machine, devices[i], i == 0 ? "" : devices[i - 1], hardware.emulated);
      if (finding) findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

Findings payload(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  // A hypervisor sets these sizes, and shows other values to its guest.
  const auto guest = is_guest(machine);
  if (guest.value_or(false)) return findings;
  for (const std::string& address : pci_addresses(hardware)) {
    // A virtual function has the sizes of its physical function.
    const int error = machine.link(pci_path(address, "physfn")).error;
    if (error == 0) continue;
    if (is_unread(error) || !guest) {
      findings.push_back(unknown_for("payload", address,
                                     guest ? pci_path(address, "physfn") : "/proc/cpuinfo",
                                     guest ? error : machine.file("/proc/cpuinfo").error,
                                     "whether it is a device of its own"));
      continue;
    }
    const bool is_nic =
        std::ranges::find(hardware.nics, address, &Nic::pci_address) != hardware.nics.end();
    findings.push_back(judge_payload(machine, address, is_nic));
  }
  return findings;
}

}  // namespace hbmwire::tools::doctor::rules
