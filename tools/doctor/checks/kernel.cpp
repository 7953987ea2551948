// SPDX-License-Identifier: MIT
#include <cerrno>
#include <optional>

#include "tools/doctor/checks/hardware.hpp"
#include "tools/doctor/checks/kernel_facts.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/checks/rules.hpp"

namespace hbmwire::tools::doctor::rules {
namespace {

constexpr ShortVersion kDmabufRegions{5, 12};  // ib_umem_dmabuf_get()
// From here on DMABUF_MOVE_NOTIFY is no longer an option.
constexpr ShortVersion kAlwaysMoveNotify{7, 0};
constexpr std::string_view kConfigWanted = "a configuration of the running kernel that can be read";

// An option that the kernel needs for hardware of this machine.
struct NeededOption {
  std::string name;
  std::string why;
  std::optional<bool> applies;  // empty: the file that shows it could not be read
  std::string source = {};      // that file
};

std::vector<NeededOption> needed_options(Evidence& machine, const Hardware& hardware) {
  const std::string amd = "/sys/module/amdgpu/version";
  const int amd_error = read_line(machine, amd).error;
  // Only a driver that does not come with the kernel has a version.
  std::optional<bool> amd_of_kernel = amd_error != 0;
  if (is_unread(amd_error)) amd_of_kernel.reset();
  std::optional<bool> gaudi_driver_is_there = has_module(machine, "habanalabs");
  if (!hardware.has("rocm")) amd_of_kernel = false;
  if (!hardware.has("gaudi")) gaudi_driver_is_there = true;  // none is needed
  return {
      {"INFINIBAND_USER_MEM", "memory regions of user programs", !hardware.nics.empty()},
      {"PCI_P2PDMA", "habanalabs and amdgpu refuse NICs without it",
       hardware.has("gaudi") || hardware.has("rocm")},
      {"DMABUF_MOVE_NOTIFY", "amdgpu moves memory to the host without it", hardware.has("rocm")},
      // A driver that does not come with the kernel has an option of its own.
      {"HSA_AMD_P2P", "amdgpu lets no other device reach its memory without it", amd_of_kernel,
       amd},
      {"DRM_ACCEL_HABANALABS", "the driver of Gaudi cards",
       gaudi_driver_is_there ? std::optional(!*gaudi_driver_is_there) : std::nullopt,
       "/sys/module/habanalabs"},
  };
}

Finding judge_option(Evidence& machine, const NeededOption& needed) {
  if (!needed.applies)
    return unknown_for("kernel-options", "CONFIG_" + needed.name, needed.source, EACCES,
                       "whether the driver is the kernel's own");
  const KernelOption option = kernel_option(machine, needed.name);
  Finding finding{.check = "kernel-options",
                  .subject = "CONFIG_" + needed.name,
                  .source = option.source,
                  .found = {},
                  .wanted = "y (" + needed.why + ")",
                  .remedy = {}};
  const auto judge = [&](bool good) {
    finding.verdict = good ? Verdict::good : Verdict::bad;
    finding.remedy = good ? "" : "boot a kernel that has CONFIG_" + needed.name;
  };
  // A function shows this option where the configuration can't be read.
  if (needed.name == "PCI_P2PDMA" && option.error != 0) {
    if (const auto found = has_symbol(machine, "pci_p2pdma_distance_many")) {
      finding.source = "/proc/kallsyms";
      finding.found = *found ? "has pci_p2pdma_distance_many" : "lacks pci_p2pdma_distance_many";
      judge(*found);
      return finding;
    }
  }
  if (option.error != 0)
    return unknown_for(finding.check, finding.subject, option.source, option.error,
                       std::string(kConfigWanted));
  finding.found = option.value.empty() ? "not there" : option.value;
  judge(option.value == "y" || option.value == "m");
  const auto version = kernel_version(machine);
  if (needed.name == "DMABUF_MOVE_NOTIFY" && option.value.empty() && !version)
    return unknown_for(finding.check, finding.subject, "uname(2)", ENODATA, finding.wanted);
  if (needed.name == "DMABUF_MOVE_NOTIFY" && option.value.empty() &&
      *version >= kAlwaysMoveNotify) {
    finding.found = "built into kernels since " + version_words(kAlwaysMoveNotify);
    judge(true);
  }
  return finding;
}

}  // namespace

Findings kernel(Evidence& machine) {
  const std::string wanted = version_words(kDmabufRegions) + " or newer";
  const Told told = ask(machine, "uname");
  const auto version = kernel_version(machine);
  if (!version)
    return {unknown_for("kernel", "", "uname(2)", told.error == 0 ? EPROTO : told.error, wanted)};
  Finding finding{.check = "kernel",
                  .subject = {},
                  .verdict = Verdict::good,
                  .source = "uname(2)",
                  .found = kernel_release(machine),
                  .wanted = wanted,
                  .remedy = {}};
  if (*version >= kDmabufRegions) return {finding};
  // Enterprise distributions and NVIDIA's OFED backport the function to older kernels.
  if (has_symbol(machine, "ib_umem_dmabuf_get").value_or(false)) {
    finding.found += ", with ib_umem_dmabuf_get of a newer one";
    return {finding};
  }
  // If the list has no function of RDMA or dma-bufs, the kernel supports neither.
  if (const int error = machine.file("/proc/kallsyms").error; error != 0)
    return {unknown_for("kernel", "", "/proc/kallsyms", error, wanted)};
  finding.verdict = Verdict::bad;
  finding.remedy = "install Linux " + wanted;
  return {finding};
}

Findings kernel_options(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  for (const NeededOption& needed : needed_options(machine, hardware)) {
    if (needed.applies.value_or(true)) findings.push_back(judge_option(machine, needed));
  }
  return findings;
}

// dma_buf_move_notify is not checked: the function exists with and without its option.
Findings kernel_symbols(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  if (hardware.nics.empty()) return {};
  Finding finding{.check = "kernel-symbols",
                  .subject = {},
                  .source = "/proc/kallsyms",
                  .found = {},
                  .wanted = "ib_umem_dmabuf_get",
                  .remedy = {}};
  const auto imports = has_symbol(machine, "ib_umem_dmabuf_get");
  if (!imports) {
    finding.found = "lists no functions";
    finding.remedy = "sudo hbmwire doctor";
    return {finding};
  }
  const bool ofed = has_symbol(machine, "ib_register_peer_memory_client").value_or(false);
  finding.found = *imports ? "has ib_umem_dmabuf_get" : "lacks ib_umem_dmabuf_get";
  if (ofed) finding.found += ", and the OFED's ib_register_peer_memory_client";
  finding.verdict = *imports ? Verdict::good : Verdict::bad;
  if (!*imports) {
    finding.remedy = ofed ? "install a newer OFED, which imports dma-bufs"
                          : "modprobe ib_uverbs, of a kernel with CONFIG_INFINIBAND_USER_MEM";
  }
  return {finding};
}

// On-demand paging itself is optional, but without it mlx5_ib_reg_user_mr_dmabuf() fails with
// EOPNOTSUPP.
Findings odp(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  for (const Nic& nic : hardware.nics) {
    if (nic.driver != "mlx5_core" || !findings.empty()) continue;
    const KernelOption option = kernel_option(machine, "INFINIBAND_ON_DEMAND_PAGING");
    if (option.error != 0) {
      findings.push_back(
          unknown_for("odp", "mlx5", option.source, option.error, std::string(kConfigWanted)));
      continue;
    }
    const bool on = option.value == "y";
    findings.push_back(
        {.check = "odp",
         .subject = "mlx5",
         .verdict = on ? Verdict::good : Verdict::bad,
         .source = option.source,
         .found =
             "CONFIG_INFINIBAND_ON_DEMAND_PAGING=" + (option.value.empty() ? "n" : option.value),
         .wanted = "y (mlx5 registers no dma-buf without it)",
         .remedy = on ? "" : "boot a kernel that has CONFIG_INFINIBAND_ON_DEMAND_PAGING"});
  }
  return findings;
}

}  // namespace hbmwire::tools::doctor::rules
