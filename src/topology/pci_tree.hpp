// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string_view>

#include "hbmwire/error.hpp"
#include "hbmwire/topology.hpp"

struct hwloc_topology;

namespace hbmwire::topology {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const noexcept;
};

using TopologyHandle = std::unique_ptr<hwloc_topology, TopologyDeleter>;

/// Where this machine's PCI devices hang, by hwloc. Thread-safe once made; never changes.
class PciTree {
 public:
  /// A tree of nothing.
  PciTree() = default;

  /// Of a topology that is loaded, with PCI devices and bridges.
  explicit PciTree(TopologyHandle loaded) noexcept : topology_(std::move(loaded)) {}

  /// Has hwloc look at this machine; takes some milliseconds. Opens no device. hwloc reads /sys,
  /// and unlike libibverbs knows nothing of SYSFS_PATH. Errors: Stage::probe.
  static Result<PciTree> discover();

  /// Between two PCI addresses ("dddd:bb:dd.f").
  [[nodiscard]] Distance distance(std::string_view a, std::string_view b) const;

  /// The one NUMA node that a PCI address is near; -1: unknown, or several.
  [[nodiscard]] int numa_node(std::string_view pci_address) const;

 private:
  TopologyHandle topology_;  // null: nothing is known
};

}  // namespace hbmwire::topology
