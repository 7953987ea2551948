// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string_view>

#include "hbmwire/error.hpp"
#include "hbmwire/topology.hpp"

struct hwloc_topology;

namespace hbmwire::topology {

/// Destroys an hwloc topology.
struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const noexcept;
};

using TopologyHandle = std::unique_ptr<hwloc_topology, TopologyDeleter>;

/// The places of this machine's PCI devices, by hwloc. Never changes once made, and is thread-safe
/// then.
class PciTree {
 public:
  /// An empty tree, which knows no device.
  PciTree() = default;

  /// Takes a loaded topology with PCI devices and bridges.
  explicit PciTree(TopologyHandle loaded) noexcept : topology_(std::move(loaded)) {}

  /// Lets hwloc read this machine's /sys, which takes some milliseconds. Opens no device. Unlike
  /// libibverbs, hwloc ignores SYSFS_PATH. Errors: Stage::probe.
  static Result<PciTree> discover();

  /// The distance between two PCI addresses ("dddd:bb:dd.f").
  [[nodiscard]] Distance distance(std::string_view a, std::string_view b) const;

  /// The NUMA node that a PCI address is near; -1 if unknown or several.
  [[nodiscard]] int numa_node(std::string_view pci_address) const;

 private:
  TopologyHandle topology_;  // null: nothing is known
};

}  // namespace hbmwire::topology
