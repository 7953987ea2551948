// SPDX-License-Identifier: MIT
#include "topology/pci_tree.hpp"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

namespace hbmwire::topology {

namespace {

hwloc_obj_t find(hwloc_topology_t topology, std::string_view pci_address) {
  // hwloc accepts other texts as addresses, too; a text that is no address finds nothing.
  if (topology == nullptr || pci_address.empty()) return nullptr;
  return hwloc_get_pcidev_by_busidstring(topology, std::string(pci_address).c_str());
}

// The object and all its ancestors, the machine last. hwloc_get_common_ancestor_obj() compares
// depths, which PCI objects do not have.
std::vector<hwloc_obj_t> with_ancestors(hwloc_obj_t object) {
  std::vector<hwloc_obj_t> chain;
  for (; object != nullptr; object = object->parent) chain.push_back(object);
  return chain;
}

hwloc_obj_t common_ancestor(hwloc_obj_t a, hwloc_obj_t b) {
  const auto above_a = with_ancestors(a);
  for (hwloc_obj_t object = b; object != nullptr; object = object->parent) {
    if (std::find(above_a.begin(), above_a.end(), object) != above_a.end()) return object;
  }
  return nullptr;
}

// The NUMA nodes near a PCI object; all nodes of the machine if the firmware names none.
hwloc_const_nodeset_t nodes_near(hwloc_topology_t topology, hwloc_obj_t object) {
  return hwloc_get_non_io_ancestor_obj(topology, object)->nodeset;
}

Distance by_numa(hwloc_topology_t topology, hwloc_obj_t a, hwloc_obj_t b) {
  const auto* const near_a = nodes_near(topology, a);
  const auto* const near_b = nodes_near(topology, b);
  if (hwloc_bitmap_intersects(near_a, near_b) == 0) return Distance::across;
  // The same nodes prove nearness only if the firmware named them: they are fewer than all nodes,
  // or the machine has just one.
  const auto* const all = hwloc_topology_get_topology_nodeset(topology);
  const bool is_known = hwloc_bitmap_weight(all) == 1 || hwloc_bitmap_isequal(near_a, all) == 0;
  const bool is_same = hwloc_bitmap_isequal(near_a, near_b) != 0;
  return is_known && is_same ? Distance::same_numa_node : Distance::unknown;
}

Error failed(const char* call) {
  return system_error(Stage::probe, call, errno != 0 ? errno : EIO, "hwloc");
}

}  // namespace

void TopologyDeleter::operator()(hwloc_topology* topology) const noexcept {
  hwloc_topology_destroy(topology);
}

Result<PciTree> PciTree::discover() {
  hwloc_topology_t raw = nullptr;
  errno = 0;
  if (hwloc_topology_init(&raw) != 0) return tl::make_unexpected(failed("hwloc_topology_init"));
  TopologyHandle topology(raw);
  // Keeps all PCI objects. The OS devices that drivers and vendors' libraries add are left out,
  // because hwloc's plugins would have to start for them.
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_OS_DEVICE, HWLOC_TYPE_FILTER_KEEP_NONE);
  // hwloc's own reading of sysfs is enough. Its plugin "pci" (libpciaccess) would read the names of
  // all devices and never free them; "x86" would visit each CPU in turn and tell nothing about PCI.
  for (const char* component : {"pci", "x86"})
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  // A device stays near its NUMA node even if a cgroup forbids this process the CPUs of that node.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(raw) != 0) return tl::make_unexpected(failed("hwloc_topology_load"));
  return PciTree(std::move(topology));
}

Distance PciTree::distance(std::string_view a, std::string_view b) const {
  const hwloc_obj_t from = find(topology_.get(), a);
  const hwloc_obj_t to = find(topology_.get(), b);
  if (from == nullptr || to == nullptr) return Distance::unknown;
  const hwloc_obj_t common = common_ancestor(from, to);
  if (common == nullptr) return Distance::unknown;
  if (common->type == HWLOC_OBJ_PCI_DEVICE) return Distance::same_switch;  // the same device
  if (common->type != HWLOC_OBJ_BRIDGE) return by_numa(topology_.get(), from, to);
  return common->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI ? Distance::same_switch
                                                                    : Distance::same_host_bridge;
}

int PciTree::numa_node(std::string_view pci_address) const {
  const hwloc_obj_t device = find(topology_.get(), pci_address);
  if (device == nullptr) return -1;
  const auto* const nodes = nodes_near(topology_.get(), device);
  return hwloc_bitmap_weight(nodes) == 1 ? hwloc_bitmap_first(nodes) : -1;
}

}  // namespace hbmwire::topology
