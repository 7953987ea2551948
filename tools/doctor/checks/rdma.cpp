// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>

#include "tools/doctor/checks/gpu_driver.hpp"
#include "tools/doctor/checks/hardware.hpp"
#include "tools/doctor/checks/libibverbs.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/checks/rules.hpp"

namespace hbmwire::tools::doctor::rules {
namespace {

Finding judge_libibverbs(Evidence& machine) {
  constexpr std::uint64_t kDmabufAbi = 12;  // the symbol version of ibv_reg_dmabuf_mr()
  const std::string wanted = "rdma-core 34 or newer";
  const auto library = libibverbs_of(machine);
  if (!library) return unknown_for("rdma-core", "", "/usr/lib/*/libibverbs.so.1", ENOENT, wanted);
  if (library->error != 0)
    return unknown_for("rdma-core", "", library->path, library->error, wanted);
  const bool good = library->abi >= kDmabufAbi;
  return {.check = "rdma-core",
          .subject = {},
          .verdict = good ? Verdict::good : Verdict::bad,
          .source = library->path,
          .found = library->file,
          .wanted = wanted,
          .remedy = good ? "" : "install rdma-core 34 or newer (libibverbs1, ibverbs-providers)"};
}

}  // namespace

Findings nics(Evidence& machine) {
  const std::string source = "/sys/class/infiniband";
  const std::string wanted = "an RDMA device of the kernel's";
  const Hardware hardware = hardware_of(machine);
  Finding finding{.check = "nics",
                  .subject = {},
                  .verdict = Verdict::good,
                  .source = source,
                  .found = {},
                  .wanted = wanted,
                  .remedy = {}};
  for (const Nic& nic : hardware.nics)
    finding.found += (finding.found.empty() ? "" : ", ") + nic.name;
  const int error = machine.folder(source).error;
  if (!hardware.nics.empty()) {
    if (error != 0) finding.source = "ibv_get_device_list(3)";
    return {finding};
  }
  if (is_unread(error)) return {unknown_for("nics", {}, source, error, wanted)};
  if (hardware.nics_gap) return {unknown_for_gap("nics", *hardware.nics_gap)};
  finding.verdict = Verdict::bad;
  int error_of_pci = 0;
  if (const auto function = rdma_function(machine, error_of_pci)) {
    finding.subject = *function;
    finding.found = "a NIC on PCI, of which the kernel shows no RDMA device";
    finding.remedy = "modprobe mlx5_ib";
  } else if (error_of_pci != 0) {
    return {unknown_for("nics", {}, "/sys/bus/pci/devices", error_of_pci, wanted)};
  } else {
    finding.found = "no RDMA device";
    finding.remedy =
        "load the NIC's driver (mlx5_ib, irdma, bnxt_re, ...); without a NIC: hbmwire emulate --";
  }
  return {finding};
}

Findings rdma_core(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  if (hardware.nics.empty()) return {};
  Findings findings{judge_libibverbs(machine)};
  if (ask(machine, "info").error != 0) return findings;  // nothing tells which NICs are listed
  const std::string verbs = "/sys/class/infiniband_verbs";
  for (const Nic& nic : hardware.nics) {
    if (nic.listed) continue;
    // libibverbs searches this folder for its devices.
    if (const int error = machine.folder(verbs).error; is_unread(error)) {
      findings.push_back(
          unknown_for("rdma-core", nic.name, verbs, error, "a provider of libibverbs for it"));
      continue;
    }
    findings.push_back({.check = "rdma-core",
                        .subject = nic.name,
                        .verdict = Verdict::bad,
                        .source = "/sys/class/infiniband/" + nic.name,
                        .found = "the kernel has it, and libibverbs does not list it",
                        .wanted = "a provider of libibverbs for it",
                        .remedy = "apt install ibverbs-providers"});
  }
  return findings;
}

Findings nic_imports(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  if (hardware.cards.empty()) return {};
  // If all cards have another way, dma-bufs are not needed.
  const PeerModule module = nvidia_peer_module(machine);
  const bool all_nvidia =
      std::ranges::all_of(hardware.cards, [](const Card& card) { return card.type == "cuda"; });
  const bool by_peer_memory = module.is_loaded() && all_nvidia;
  const bool may_have_peer_memory = module.hidden && all_nvidia;
  Findings findings;
  for (const Nic& nic : hardware.nics) {
    if (!nic.listed) continue;
    Finding finding{
        .check = "nic-imports",
        .subject = nic.name,
        .source = "ibv_reg_dmabuf_mr(3) without a dma-buf",
        .found = "the device could not be opened",
        .wanted = "a driver that imports dma-bufs (mlx5, irdma, bnxt_re, efa, mana, ionic)",
        .remedy = {}};
    if (nic.imports_dmabufs) {
      const bool good = *nic.imports_dmabufs || by_peer_memory;
      finding.found = *nic.imports_dmabufs ? "imports dma-bufs" : "does not import dma-bufs";
      if (!*nic.imports_dmabufs && by_peer_memory)
        finding.found += "; peer memory takes their place";
      finding.verdict = good                   ? Verdict::good
                        : may_have_peer_memory ? Verdict::unknown
                                               : Verdict::bad;
      if (finding.verdict == Verdict::bad)
        finding.remedy = "use another NIC, or a newer driver of this one";
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace hbmwire::tools::doctor::rules
