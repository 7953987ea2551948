// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <set>

#include "emulation/common/first_line.hpp"
#include "emulation/tool/sysfs_tree.hpp"

namespace hbmwire::emulation::tool {
namespace {

using emulation::first_line;

std::vector<Machine::NumaNode> numa_nodes() {
  std::vector<Machine::NumaNode> nodes;
  const std::filesystem::path directory = "/sys/devices/system/node";
  // Two nodes suffice, because the emulated devices are split in two halves.
  for (int number = 0; number < 64 && nodes.size() < 2; ++number) {
    const auto node = directory / fmt::format("node{}", number);
    std::error_code ignored;
    if (!std::filesystem::exists(node, ignored)) continue;
    nodes.push_back({number, first_line(node / "cpulist"), first_line(node / "cpumap")});
  }
  if (nodes.empty()) {
    const auto cpus = first_line("/sys/devices/system/cpu/online");
    nodes.push_back({-1, cpus.empty() ? "0" : cpus, "ffffffff"});
  }
  return nodes;
}

// The emulated devices get a PCI domain of their own, because a real root bus may own any bus
// number of its domain.
unsigned free_pci_domain() {
  std::set<std::string> used;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices", ignored)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with("pci")) used.insert(name.substr(3, 4));  // pci<domain>:<bus>
  }
  unsigned domain = 0;
  while (used.contains(fmt::format("{:04x}", domain))) ++domain;
  return domain;
}

}  // namespace

Machine Machine::here() { return {numa_nodes(), free_pci_domain(), interfaces_here()}; }

}  // namespace hbmwire::emulation::tool
