// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "tools/doctor/checks/gpu_driver.hpp"
#include "tools/doctor/checks/kernel_facts.hpp"
#include "tools/doctor/checks/libibverbs.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/evidence/pci_config.hpp"
#include "tools/doctor/remote/facts.hpp"

namespace hbmwire::tools::doctor {
namespace {

// Kernel modules between an RDMA connection and its memory. A module is compared only if both ends
// have it.
constexpr std::array kModulesCompared{
    "ib_core", "ib_uverbs",      "mlx5_core",  "mlx5_ib",       "irdma",        "bnxt_re", "efa",
    "mana_ib", "ionic",          "ionic_rdma", "erdma",         "rdma_rxe",     "siw",     "nvidia",
    "amdgpu",  "nvidia_peermem", "habanalabs", "habanalabs_ib", "habanalabs_cn"};

// Settings in which the two ends of a connection may differ by accident.
constexpr std::array kSettingsOfPriority{"HBMWIRE_LINK_SERVICE_LEVEL",
                                         "HBMWIRE_LINK_TRAFFIC_CLASS"};
constexpr std::array kOtherSettings{"HBMWIRE_GID_INDEX",
                                    "HBMWIRE_LINK_PKEY_INDEX",
                                    "HBMWIRE_LINK_MTU",
                                    "HBMWIRE_LINK_ACK_TIMEOUT",
                                    "HBMWIRE_LINK_RETRY_COUNT",
                                    "HBMWIRE_LINK_RNR_RETRY",
                                    "HBMWIRE_PATHS",
                                    "HBMWIRE_REQUIRE_PATH"};

constexpr std::string_view kInfoSource = "hbmwire info --json";

/// Empty for an empty value, which means that it is unknown.
Readings one_reading(std::string value, std::string_view source) {
  if (value.empty()) return {};
  return {{.group = {}, .subject = {}, .value = std::move(value), .source = std::string(source)}};
}

Readings read_emulation(End& end) {
  const auto emulated = flag_at(end.info, "emulated");
  if (!emulated) return {};
  return one_reading(*emulated ? "emulated" : "real", kInfoSource);
}

Readings read_version(End& end) {
  const std::string told = text_at(end.info, "version");
  return one_reading(told.empty() ? end.archive_version : told, kInfoSource);
}

Readings read_protocols(End& end) {
  const Json& protocols = member(end.info, "protocols");
  Readings readings;
  for (const auto& [key, words] : {std::pair("endpoint", "protocol of endpoints"),
                                   std::pair("memory_key", "format of memory keys")}) {
    if (const auto number = number_at(protocols, key))
      readings.push_back({.group = words,
                          .subject = {},
                          .value = fmt::format("{}", *number),
                          .source = std::string(kInfoSource)});
  }
  return readings;
}

Readings read_kernel(End& end) { return one_reading(kernel_release(end.machine), "uname(2)"); }

Readings read_architecture(End& end) {
  return one_reading(text_at(ask(end.machine, "uname").value, "machine"), "uname(2)");
}

Readings read_rdma_core(End& end) {
  const auto library = libibverbs_of(end.machine);
  if (!library || library->error != 0) return {};
  return one_reading(library->release.empty() ? library->file : library->release, library->path);
}

/// The loaded modules to compare: each one's name, and the answer for its version. Empty below
/// `hbmwire emulate`, where no kernel driver is involved.
std::vector<std::pair<std::string, Answer>> versions_of_modules(End& end) {
  std::vector<std::pair<std::string, Answer>> versions;
  if (end.hardware.emulated) return versions;
  for (const char* module : kModulesCompared) {
    if (has_module(end.machine, module).value_or(false))
      versions.emplace_back(module,
                            read_line(end.machine, fmt::format("/sys/module/{}/version", module)));
  }
  return versions;
}

Readings read_modules(End& end) {
  Readings readings;
  for (const auto& [module, version] : versions_of_modules(end)) {
    if (version.error != 0 && version.error != ENOENT) continue;
    readings.push_back({.group = module,
                        .subject = {},
                        .value = version.error == 0 ? version.value : "the kernel's own",
                        .source = fmt::format("/sys/module/{}/version", module)});
  }
  return readings;
}

/// Reads the builds of modules without a version. Builds for different kernels always differ, so
/// only those for the same kernel release are compared.
Readings read_builds(End& end) {
  const std::string release = kernel_release(end.machine);
  Readings readings;
  for (const auto& [module, version] : versions_of_modules(end)) {
    if (version.error != ENOENT || release.empty()) continue;
    const std::string source = fmt::format("/sys/module/{}/srcversion", module);
    const Answer build = read_line(end.machine, source);
    if (build.error == 0)
      readings.push_back({.group = fmt::format("{} ({})", module, release),
                          .subject = {},
                          .value = build.value,
                          .source = source});
  }
  return readings;
}

Readings read_nvidia_kind(End& end) {
  const NvidiaDriver driver = nvidia_driver_of(end.machine);
  if (driver.error != 0 || driver.text.empty()) return {};
  return one_reading(driver.open ? "open" : "closed", "/proc/driver/nvidia/version");
}

/// The group is the model of a NIC: its PCI vendor and device.
Readings read_firmware(End& end) {
  Readings readings;
  for (const Nic& nic : end.hardware.nics) {
    if (nic.pci_address.empty() || readings.size() == kMostPortsCompared) continue;
    const Answer vendor = read_line(end.machine, pci_path(nic.pci_address, "vendor"));
    const Answer device = read_line(end.machine, pci_path(nic.pci_address, "device"));
    const std::string source = fmt::format("/sys/class/infiniband/{}/fw_ver", nic.name);
    const Answer version = read_line(end.machine, source);
    if (vendor.error != 0 || device.error != 0 || version.error != 0 || version.value.empty())
      continue;
    readings.push_back({.group = fmt::format("NICs {}:{}", vendor.value, device.value),
                        .subject = nic.name,
                        .value = version.value,
                        .source = source});
  }
  return readings;
}

Readings settings_named(End& end, std::span<const char* const> names) {
  Readings readings;
  for (const char* name : names) {
    if (const auto value = setting_of(end, name))
      readings.push_back({.group = name,
                          .subject = {},
                          .value = value->empty() ? "not set" : *value,
                          .source = "hbmwire info -c"});
  }
  return readings;
}

Readings read_priority_settings(End& end) { return settings_named(end, kSettingsOfPriority); }

Readings read_other_settings(End& end) { return settings_named(end, kOtherSettings); }

using Matter = Difference::Matter;

constexpr std::array kMachineFacts{
    Fact{"hardware", Matter::fault,
         "an emulated NIC reaches only emulated NICs: run both ends below hbmwire emulate, or "
         "neither",
         read_emulation},
    Fact{"", Matter::fault,
         "ends with different ones refuse each other: install the same hbmwire on both",
         read_protocols},
    Fact{"hbmwire", Matter::note, "install the same version on both", read_version},
    Fact{"", Matter::fault,
         "packets of the two ends travel in different queues of NICs and switches, of which one "
         "may lose them: set the same on both",
         read_priority_settings},
    Fact{"", Matter::note, "one end's programs may do otherwise than the other's",
         read_other_settings},
    Fact{"kernel", Matter::note,
         "drivers and dma-bufs depend on it: with a fault at one end only, boot the other one's",
         read_kernel},
    Fact{"architecture", Matter::note,
         "sizes of pages and the reach of peer-to-peer DMA may differ", read_architecture},
    Fact{"rdma-core", Matter::note,
         "install the newer one on both (libibverbs1, ibverbs-providers)", read_rdma_core},
    Fact{"driver", Matter::note, "install the same driver on both", read_modules},
    Fact{"build of", Matter::note,
         "one kernel release with modules of two builds: reinstall the kernel's modules on one",
         read_builds},
    Fact{"NVIDIA kernel modules", Matter::note,
         "only the open ones export dma-bufs; closed ones need nvidia_peermem", read_nvidia_kind},
    Fact{"firmware of", Matter::note,
         "install the newer one on both (NVIDIA: mlxfwmanager; others: fwupdmgr)", read_firmware}};

}  // namespace

End::End(Evidence& evidence, std::string wrote)
    : machine(evidence),
      archive_version(std::move(wrote)),
      info(ask(evidence, "info").value),
      hardware(hardware_of(evidence)) {
  std::vector<Finding> unread;  // unread files are no difference
  ports = active_ports(machine, hardware, {}, unread);
  if (ports.size() > kMostPortsCompared) ports.resize(kMostPortsCompared);
}

std::span<const Fact> machine_facts() noexcept { return kMachineFacts; }

std::optional<std::string> setting_of(End& end, std::string_view name) {
  // Settings may come from a file, which the environment does not show.
  const Json& settings = member(end.info, "settings");
  if (settings.is_array()) {
    for (const Json& setting : settings) {
      if (text_at(setting, "name") == name) return text_at(setting, "value");
    }
    return std::nullopt;  // this version does not have the setting
  }
  const Told environment = ask(end.machine, "environment");
  if (!environment.value.is_object()) return std::nullopt;
  return text_at(environment.value, name);
}

}  // namespace hbmwire::tools::doctor
