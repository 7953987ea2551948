// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "tools/doctor/checks/hardware.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/checks/rules.hpp"
#include "tools/doctor/evidence/pci_config.hpp"

namespace hbmwire::tools::doctor::rules {
namespace {

// From this kernel on, the library also sees events of shared memory (docs/registration.md).
constexpr ShortVersion kWatches{5, 19};
constexpr ShortVersion kWatchesOnArm{6, 10};

std::size_t count_nodes(const Names& names) {
  return static_cast<std::size_t>(std::ranges::count_if(names.values, [](const std::string& name) {
    return name.starts_with("node") && leading_number(std::string_view(name).substr(4));
  }));
}

Finding judge_card_node(Evidence& machine, const Hardware& hardware, const Card& card) {
  const std::string source = pci_path(card.pci_address, "numa_node");
  const std::string wanted = "a NIC of the same NUMA node";
  const Answer node = read_line(machine, source);
  if (node.error != 0) return unknown_for("numa", card.pci_address, source, node.error, wanted);
  Finding finding{.check = "numa",
                  .subject = card.pci_address,
                  .source = source,
                  .found = "node " + node.value,
                  .wanted = wanted,
                  .remedy = {}};
  if (!leading_number(node.value)) {
    finding.found = "-1: the BIOS does not tell";
    finding.remedy = "switch on NUMA in the BIOS (SLIT/SRAT)";
    return finding;
  }
  bool good = false;
  int error = hardware.nics_gap ? hardware.nics_gap->error : 0;
  for (const Nic& nic : hardware.nics) {
    if (nic.pci_address.empty()) continue;
    const Answer of_nic = read_line(machine, pci_path(nic.pci_address, "numa_node"));
    good = good || of_nic.value == node.value;
    if (is_unread(of_nic.error)) error = of_nic.error;
  }
  if (!good && error != 0)
    return unknown_for("numa", card.pci_address, "numa_node of the NICs", error, wanted);
  finding.verdict = good ? Verdict::good : Verdict::slow;
  if (!good) {
    finding.found += ", and no NIC there";
    finding.remedy = "move a NIC or the card to a slot of the same socket";
  }
  return finding;
}

// Judges whether this process may run on the CPUs near its devices.
std::optional<Finding> judge_affinity(Evidence& machine, const Hardware& hardware) {
  std::vector<std::uint64_t> near;
  std::optional<std::uint64_t> node;
  int error = hardware.nics_gap ? hardware.nics_gap->error : 0;
  for (const std::string& address : pci_addresses(hardware)) {
    const Answer list = read_line(machine, pci_path(address, "local_cpulist"));
    if (is_unread(list.error)) error = list.error;
    const auto cpus = cpus_in(list.value);
    if (!cpus.empty() && !node)
      node = leading_number(read_line(machine, pci_path(address, "numa_node")).value);
    near.insert(near.end(), cpus.begin(), cpus.end());
  }
  const std::string wanted = "a CPU near a card or a NIC";
  // The finding if the CPUs near some device are missing in `near`.
  const Finding hidden =
      unknown_for("numa", "this process", "local_cpulist of the devices", error, wanted);
  if (near.empty()) return error != 0 ? std::optional(hidden) : std::nullopt;
  const Told told = ask(machine, "affinity");
  const Json& cpus = member(told.value, "cpus");
  if (told.error != 0 || !cpus.is_array() || cpus.empty())
    return unknown_for("numa", "this process", "sched_getaffinity(2)",
                       told.error == 0 ? EPROTO : told.error, wanted);
  const bool good = std::ranges::any_of(cpus, [&](const Json& cpu) {
    return cpu.is_number_unsigned() &&
           std::ranges::find(near, cpu.get<std::uint64_t>()) != near.end();
  });
  if (!good && error != 0) return hidden;
  const std::string number = node ? std::to_string(*node) : "NODE";
  return Finding{
      .check = "numa",
      .subject = "this process",
      .verdict = good ? Verdict::good : Verdict::slow,
      .source = "sched_getaffinity(2)",
      .found = fmt::format("may run on {} CPUs, {} them near", cpus.size(),
                           good ? "some of" : "none of"),
      .wanted = wanted,
      .remedy = good ? "" : fmt::format("numactl --cpunodebind={0} --membind={0} COMMAND", number)};
}

}  // namespace

Findings numa(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  const bool has_nic =
      std::ranges::any_of(hardware.nics, [](const Nic& nic) { return !nic.pci_address.empty(); });
  if (!has_nic) return {};
  const std::string source = "/sys/devices/system/node";
  const Names names = machine.folder(source);
  // A kernel without NUMA has no such folder. Its folder of CPUs then shows that sysfs is there.
  const int error = error_below(machine, "/sys/devices/system/cpu", names.error);
  if (is_unread(error))
    return {unknown_for("numa", "", source, error, "how many NUMA nodes there are")};
  if (count_nodes(names) < 2) {
    return {{.check = "numa",
             .subject = {},
             .verdict = Verdict::good,
             .source = source,
             .found = "one node",
             .wanted = "card, NIC and process of one node",
             .remedy = {}}};
  }
  Findings findings;
  for (const Card& card : hardware.cards) {
    if (!card.pci_address.empty()) findings.push_back(judge_card_node(machine, hardware, card));
  }
  if (auto finding = judge_affinity(machine, hardware)) findings.push_back(std::move(*finding));
  return findings;
}

Findings cpu(Evidence& machine) {
  const std::string folder = "/sys/devices/system/cpu";
  std::map<std::string, std::size_t> governors;
  std::size_t total = 0;
  const Names names = machine.folder(folder);
  int error = error_below(machine, "/sys", names.error);
  for (const std::string& name : names.values) {
    if (!name.starts_with("cpu") || !leading_number(std::string_view(name).substr(3))) continue;
    const Answer governor = read_line(machine, folder + "/" + name + "/cpufreq/scaling_governor");
    if (governor.error != 0 && !is_unread(error)) error = governor.error;
    if (governor.error != 0) continue;
    ++governors[governor.value];
    ++total;
  }
  const std::string source = folder + "/cpu*/cpufreq/scaling_governor";
  const std::string wanted = "performance";
  if (total == 0) {
    // The hypervisor sets the clock of a guest.
    if (!is_unread(error) && is_guest(machine).value_or(false)) return {};
    return {unknown_for("cpu", "", source, error == 0 ? ENOENT : error, wanted)};
  }
  // A CPU whose governor can't be read may have another one.
  if (is_unread(error) && governors[wanted] == total)
    return {unknown_for("cpu", "", source, error, wanted)};
  const std::size_t fast = governors[wanted];
  const bool good = fast == total;
  std::string found;
  for (const auto& [governor, count] : governors) {
    if (count != 0)
      found +=
          fmt::format("{}{} on {} of {} CPUs", found.empty() ? "" : ", ", governor, count, total);
  }
  return {{.check = "cpu",
           .subject = {},
           .verdict = good ? Verdict::good : Verdict::slow,
           .source = source,
           .found = found,
           .wanted = wanted,
           .remedy = good ? "" : "cpupower frequency-set -g performance"}};
}

Findings huge_pages(Evidence& machine) {
  const std::string source = "/sys/kernel/mm/transparent_hugepage/enabled";
  const std::string wanted = "madvise or always, or vm.nr_hugepages";
  const Answer pool = read_line(machine, "/proc/sys/vm/nr_hugepages");
  const Answer transparent = read_line(machine, source);
  const std::uint64_t pages = leading_number(pool.value).value_or(0);
  const bool good = pages != 0 || transparent.value.find("[always]") != std::string::npos ||
                    transparent.value.find("[madvise]") != std::string::npos;
  const int pool_error = error_below(machine, "/proc/sys/vm", pool.error);
  if (!good && transparent.error != 0)
    return {unknown_for("huge-pages", "", source, transparent.error, wanted)};
  if (!good && is_unread(pool_error))
    return {unknown_for("huge-pages", "", "/proc/sys/vm/nr_hugepages", pool_error, wanted)};
  return {{.check = "huge-pages",
           .subject = {},
           .verdict = good ? Verdict::good : Verdict::slow,
           .source = source,
           .found = fmt::format("{}; {} in the pool", transparent.value, pages),
           .wanted = wanted,
           .remedy = good ? "" : "echo madvise > " + source}};
}

// The library opens its userfaultfd with UFFD_USER_MODE_ONLY, which vm.unprivileged_userfaultfd=0
// allows. The file of that setting shows that the kernel was built with userfaultfd.
Findings userfaultfd(Evidence& machine) {
  const auto version = kernel_version(machine);
  const bool arm = text_at(ask(machine, "uname").value, "machine") == "aarch64";
  const ShortVersion first = arm ? kWatchesOnArm : kWatches;
  const std::string source = "/proc/sys/vm/unprivileged_userfaultfd";
  Finding finding{
      .check = "userfaultfd",
      .subject = {},
      .verdict = Verdict::good,
      .source = source,
      .found = "Linux " + kernel_release(machine),
      .wanted = fmt::format("Linux {} or newer with CONFIG_USERFAULTFD, and the right to call it",
                            version_words(first)),
      .remedy = {}};
  const int built = error_below(machine, "/proc/sys/vm", machine.file(source).error);
  if (!version || (built != 0 && built != ENOENT))
    return {unknown_for("userfaultfd", "", version ? source : "uname(2)", version ? built : EPROTO,
                        finding.wanted)};
  if (built == ENOENT || *version < first) {
    finding.verdict = Verdict::slow;
    if (built == ENOENT) finding.found += " without userfaultfd";
    finding.remedy = "install " + finding.wanted.substr(0, finding.wanted.find(','));
    return {finding};
  }
  // The profile of a container's engine may forbid the call, which only a call would show.
  const Answer status = machine.file("/proc/self/status");
  const auto seccomp = value_of_key(status.value, "Seccomp:");
  if (status.error != 0 && machine.access("/dev/userfaultfd").error != 0)
    return {unknown_for("userfaultfd", "", "/proc/self/status", status.error, finding.wanted)};
  const bool filtered = seccomp && *seccomp != "0";
  if (filtered && machine.access("/dev/userfaultfd").error != 0) {
    finding.verdict = Verdict::unknown;
    finding.found += ", and a seccomp profile that may forbid the call";
    finding.remedy = "docker run --device=/dev/userfaultfd";
  }
  return {finding};
}

}  // namespace hbmwire::tools::doctor::rules
