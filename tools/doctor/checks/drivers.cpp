// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tools/doctor/checks/gpu_driver.hpp"
#include "tools/doctor/checks/hardware.hpp"
#include "tools/doctor/checks/kernel_facts.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/checks/rules.hpp"

namespace hbmwire::tools::doctor::rules {
namespace {

// Up to Linux 6.2 the driver exported a mapping by its handle. From 6.3 on it exports it by its
// address, and hbmwire uses only this way.
constexpr ShortVersion kExportByAddress{6, 3};
// Up to Linux 6.6 the driver checked the offset of an export and then ignored it. hbmwire exports
// allocations from their beginning; other programs get the wrong memory.
constexpr ShortVersion kOffsetsRight{6, 7};

// Modules whose version must match that of another module or of a library.
constexpr std::array kModules{"nvidia",  "nvidia_peermem", "amdgpu",    "habanalabs",
                              "ib_core", "ib_uverbs",      "mlx5_core", "mlx5_ib",
                              "irdma",   "bnxt_re",        "efa"};

Finding judge_gaudi_module(Evidence& machine) {
  Finding finding{.check = "gaudi-driver",
                  .subject = {},
                  .verdict = Verdict::bad,
                  .source = "/sys/module/habanalabs",
                  .found = "not loaded",
                  .wanted = "the driver habanalabs",
                  .remedy = "modprobe habanalabs"};
  const auto loaded = has_module(machine, "habanalabs");
  if (!loaded) return unknown_for(finding.check, {}, finding.source, EPERM, finding.wanted);
  if (!*loaded) return finding;
  const Answer version = read_line(machine, "/sys/module/habanalabs/version");
  const auto kernel = kernel_version(machine);
  finding.verdict = Verdict::good;
  finding.remedy = {};
  finding.found = version.error == 0 ? version.value : "the kernel's own";
  if (is_unread(version.error))
    return unknown_for(finding.check, {}, finding.source + "/version", version.error,
                       finding.wanted);
  // Only Intel's own driver has a version, and any release of it will do.
  if (version.error == 0) return finding;
  if (!kernel) return unknown_for(finding.check, {}, "uname(2)", ENODATA, "the kernel's version");
  if (*kernel >= kOffsetsRight) return finding;
  finding.wanted = "Linux 6.3 or newer, or Intel's own driver";
  finding.found += ", of Linux " + version_words(*kernel);
  if (*kernel >= kExportByAddress) {
    finding.found += ": exports at an offset are wrong before 6.7 (hbmwire makes none)";
    return finding;
  }
  finding.verdict = Verdict::bad;
  finding.remedy = "install Linux 6.7 or newer, or Intel's driver packages (habanalabs-dkms)";
  return finding;
}

Finding judge_gaudi(Evidence& machine, const Card& card) {
  int error = 0;
  const auto entry = gaudi_entry(machine, card.pci_address, error);
  Finding finding{.check = "gaudi-driver",
                  .subject = card.pci_address,
                  .source = !card.status.empty() ? "hbmwire info"
                            : entry              ? entry->folder + "/status"
                                                 : "/sys/class/accel",
                  .found = card.status,
                  .wanted = "Operational",
                  .remedy = {}};
  if (finding.found.empty() && entry) {
    const Answer status = read_line(machine, finding.source);
    if (status.error != 0)
      return unknown_for(finding.check, finding.subject, finding.source, status.error,
                         "Operational");
    finding.found = status.value;
  }
  if (finding.found.empty() && error == 0)
    error = error_below(machine, "/sys/class", machine.folder("/sys/class/accel").error);
  // has_module() gives nothing (not false) if the modules can't be seen.
  if (finding.found.empty() && !has_module(machine, "habanalabs")) error = EACCES;
  if (finding.found.empty() && is_unread(error))
    return unknown_for(finding.check, finding.subject, finding.source, error, finding.wanted);
  if (finding.found.empty()) {
    finding.verdict = Verdict::bad;
    finding.found = "the driver does not have this card";
    finding.remedy = "dmesg | grep habanalabs";
    return finding;
  }
  const bool good = finding.found == "Operational";
  finding.verdict = good ? Verdict::good : Verdict::bad;
  if (!good) finding.remedy = "wait for the end of a reset; else hl-smi, and restart the machine";
  return finding;
}

// Compares the builds of a loaded and an installed module by a version that both answers contain.
std::optional<Finding> judge_module(Evidence& machine, const std::string& module) {
  const std::string folder = "/sys/module/" + module;
  const int error_of_folder = machine.folder(folder).error;
  if (is_unread(error_of_folder))
    return unknown_for("loaded-modules", module, folder, error_of_folder, "its version");
  if (error_of_folder != 0) return std::nullopt;
  const Told installed = ask(machine, "modinfo " + module);
  for (const char* kind : {"srcversion", "version"}) {
    const Answer loaded = read_line(machine, folder + "/" + kind);
    if (loaded.error != 0 && !is_unread(loaded.error)) continue;
    Finding finding{.check = "loaded-modules",
                    .subject = module,
                    .source = folder + "/" + kind,
                    .found = "loaded " + loaded.value,
                    .wanted = {},
                    .remedy = {}};
    const std::string wanted = text_at(installed.value, kind);
    finding.wanted = wanted.empty() ? "the version that modinfo(8) tells" : "installed " + wanted;
    const int error = loaded.error != 0 ? loaded.error : installed.error;
    if (error != 0)
      return unknown_for(finding.check, module, loaded.error != 0 ? finding.source : "modinfo(8)",
                         error, finding.wanted);
    if (wanted.empty()) continue;
    const bool same = wanted == loaded.value;
    finding.verdict = same ? Verdict::good : Verdict::bad;
    if (!same) finding.remedy = fmt::format("reboot, or modprobe -r {0} && modprobe {0}", module);
    return finding;
  }
  return std::nullopt;
}

Finding judge_cuda_way(Evidence& machine, const Hardware& hardware) {
  const NvidiaDriver driver = nvidia_driver_of(machine);
  const PeerModule module = nvidia_peer_module(machine);
  const auto any_imports = [&](bool if_unknown) {
    return std::ranges::any_of(
        hardware.nics, [&](const Nic& nic) { return nic.imports_dmabufs.value_or(if_unknown); });
  };
  Finding finding{.check = "peer-memory",
                  .subject = "cuda",
                  .verdict = Verdict::good,
                  .source = "/sys/module/nvidia_peermem",
                  .found = {},
                  .wanted = "dma-bufs of the open kernel modules, or nvidia_peermem",
                  .remedy = {}};
  if (driver.exports_dmabufs() && any_imports(/*if_unknown=*/false)) {
    finding.source = "/proc/driver/nvidia/version";
    finding.found = "dma-bufs, exported and imported";
  } else if (module.is_loaded()) {
    finding.source = "/sys/module/" + module.name;
    finding.found = module.name + " is loaded";
  } else if (is_unread(driver.error) || module.hidden) {
    const bool of_driver = is_unread(driver.error);
    return unknown_for(finding.check, finding.subject,
                       of_driver ? "/proc/driver/nvidia/version" : finding.source,
                       of_driver ? driver.error : EACCES, finding.wanted);
  } else if (driver.exports_dmabufs() && any_imports(/*if_unknown=*/true)) {
    return unknown_for(finding.check, finding.subject, "ibv_reg_dmabuf_mr(3)", ENODATA,
                       "whether a NIC imports dma-bufs");
  } else {
    finding.verdict = Verdict::bad;
    finding.found = "neither";
    finding.remedy = "modprobe nvidia-peermem";
  }
  return finding;
}

Finding judge_rocm_way(Evidence& machine) {
  Finding finding{.check = "peer-memory",
                  .subject = "rocm",
                  .verdict = Verdict::good,
                  .source = "/sys/kernel/mm/memory_peers/amdkfd/version",
                  .found = "amdkfd gives its memory to the OFED",
                  .wanted = "dma-bufs of amdgpu, or the OFED's peer memory",
                  .remedy = {}};
  const int error = read_line(machine, finding.source).error;
  if (error == 0) return finding;
  const KernelOption option = kernel_option(machine, "PCI_P2PDMA");
  if (option.error != 0)
    return unknown_for(finding.check, finding.subject, option.source, option.error, finding.wanted);
  const bool good = option.value == "y";
  if (!good && is_unread(error))
    return unknown_for(finding.check, finding.subject, finding.source, error, finding.wanted);
  finding.source = option.source;
  finding.found = good ? "dma-bufs" : "neither";
  finding.verdict = good ? Verdict::good : Verdict::bad;
  if (!good) finding.remedy = "boot a kernel that has CONFIG_PCI_P2PDMA";
  return finding;
}

}  // namespace

Findings nvidia_driver(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  if (!hardware.has("cuda")) return {};
  const NvidiaDriver driver = nvidia_driver_of(machine);
  Finding finding{.check = "nvidia-driver",
                  .subject = {},
                  .verdict = Verdict::good,
                  .source = "/proc/driver/nvidia/version",
                  .found = driver.text,
                  .wanted = "the open kernel modules, 515 or newer",
                  .remedy = {}};
  if (driver.error == ENOENT) {
    finding.verdict = Verdict::bad;
    finding.found = "the driver is not loaded";
    finding.remedy = "modprobe nvidia";
    return {finding};
  }
  if (driver.error != 0)
    return {unknown_for(finding.check, "", finding.source, driver.error, finding.wanted)};
  if (driver.exports_dmabufs()) return {finding};
  const PeerModule module = nvidia_peer_module(machine);
  if (module.hidden)
    return {unknown_for(finding.check, "", "/sys/module/nvidia_peermem", EACCES, finding.wanted)};
  if (module.is_loaded()) {
    finding.found += "; " + module.name + " takes the place of dma-bufs";
    return {finding};
  }
  finding.verdict = Verdict::bad;
  finding.remedy = "install the open kernel modules (nvidia-open), or modprobe nvidia-peermem";
  return {finding};
}

Findings gaudi_driver(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  if (!hardware.has("gaudi")) return {};
  Findings findings;
  if (!hardware.emulated) findings.push_back(judge_gaudi_module(machine));
  if (!findings.empty() && findings.front().found == "not loaded") return findings;
  for (const Card& card : hardware.cards) {
    if (card.type == "gaudi") findings.push_back(judge_gaudi(machine, card));
  }
  return findings;
}

Findings loaded_modules(Evidence& machine) {
  const std::string folder = "/sys/module";
  if (const int error = error_below(machine, folder, machine.folder(folder).error); error != 0)
    return {unknown_for("loaded-modules", "", folder, error, "the versions of loaded modules")};
  Findings findings;
  for (const char* module : kModules) {
    if (auto finding = judge_module(machine, module)) findings.push_back(std::move(*finding));
  }
  return findings;
}

Findings peer_memory(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  if (hardware.nics.empty()) return findings;
  if (hardware.has("cuda")) findings.push_back(judge_cuda_way(machine, hardware));
  if (hardware.has("rocm")) findings.push_back(judge_rocm_way(machine));
  return findings;
}

}  // namespace hbmwire::tools::doctor::rules
