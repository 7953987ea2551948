// SPDX-License-Identifier: MIT
#pragma once

#include "tools/doctor/evidence/parsed_json.hpp"
#include "tools/doctor/evidence/record.hpp"

namespace hbmwire::tools::doctor {

/// A machine of a dump that rdma-core's `rdma_topo dump` wrote: a list of PCI functions, each with
/// "realpath", "config" (base64 of zlib's format), "modalias", and mostly "iommu_group",
/// "numa_node", "vpd" and "subsystems". The record has what these tell: of each function the
/// configuration space, the files that the kernel derives from it, its real path, IOMMU group and
/// NUMA node, and the RDMA devices and network interfaces. It is partial.
[[nodiscard]] Foreign<Record> record_of_rdma_topo(const SortedJson& dump);

}  // namespace hbmwire::tools::doctor
