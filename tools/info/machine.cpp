// SPDX-License-Identifier: MIT
#include "tools/info/machine.hpp"

#include <unistd.h>

#include <fstream>

#include "hbmwire/topology.hpp"

namespace hbmwire::tools {
namespace {

DeviceView view_of(const Context& context, const DeviceInfo& device,
                   const std::vector<NicDevice>& nics) {
  DeviceView view{.device = device, .nics = {}};
  if (device.pci_address.empty()) return view;
  view.nics = context.nics_near(device.pci_address, nics);
  // hwloc also knows the node if the kernel's numa_node is -1 because there is only one.
  if (const int node = context.numa_node(device.pci_address); node >= 0)
    view.device.numa_node = node;
  return view;
}

/// Checks the kernel's rule for process_vm_readv(2). Without Yama's file there is no restriction.
bool may_copy_private() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  if (!(file >> scope)) return true;
  constexpr int kForbidden = 3;  // to root, too
  return scope == 0 || (::geteuid() == 0 && scope < kForbidden);
}

}  // namespace

Outcome<Machine> look_at_machine() {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  Machine machine;
  machine.shares_private = may_copy_private();
  if (auto nics = context.nics()) {
    machine.nics = std::move(*nics);
  } else {
    machine.no_nics = nics.error();
  }
  for (const MemoryProbe& probe : context.memory()) {
    MemoryView view{.probe = probe, .devices = {}};
    for (const DeviceInfo& device : probe.devices)
      view.devices.push_back(view_of(context, device, machine.nics));
    machine.memory.push_back(std::move(view));
  }
  return machine;
}

}  // namespace hbmwire::tools
