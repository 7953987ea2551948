// SPDX-License-Identifier: MIT
#include <hwloc.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <memory>
#include <string>

#include "tools/doctor/evidence/live_calls.hpp"

namespace hbmwire::tools::doctor {
namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

Json hwloc_failed() { return {{"error", errno != 0 ? errno : EIO}}; }

/// Finds CPUs, NUMA nodes, PCI devices and bridges. Leaves out devices of the operating system:
/// they would add network addresses, and their plugins would start the vendors' libraries.
Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  errno = 0;
  Topology topology(hwloc_topology_init(&raw) == 0 ? raw : nullptr, &hwloc_topology_destroy);
  if (!topology) return topology;
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_OS_DEVICE, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_NONE);
  // Both components take long and find nothing that is needed here; see PciTree::discover().
  for (const char* component : {"pci", "x86"})
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(raw) != 0) topology.reset();
  return topology;
}

}  // namespace

Json hwloc_xml() {
  const Topology topology = load_topology();
  if (!topology) return hwloc_failed();
  char* text = nullptr;
  int bytes = 0;  // includes the final zero byte
  if (hwloc_topology_export_xmlbuffer(topology.get(), &text, &bytes, 0) != 0) return hwloc_failed();
  Json answer{{"value", std::string(text, bytes > 0 ? static_cast<std::size_t>(bytes) - 1 : 0)}};
  hwloc_free_xmlbuffer(topology.get(), text);
  return answer;
}

Json fork_state() {
  const auto state = [] {
    switch (::ibv_is_fork_initialized()) {
      case IBV_FORK_UNNEEDED:
        return "unneeded";
      case IBV_FORK_ENABLED:
        return "enabled";
      default:
        return "disabled";
    }
  };
  return {{"value", {{"verbs", state()}}}};
}

}  // namespace hbmwire::tools::doctor
