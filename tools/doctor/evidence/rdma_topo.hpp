// SPDX-License-Identifier: MIT
#pragma once

#include "tools/doctor/evidence/parsed_json.hpp"
#include "tools/doctor/evidence/record.hpp"

namespace hbmwire::tools::doctor {

/// Converts a dump of rdma-core's `rdma_topo dump`: a list of PCI functions, each with "realpath",
/// "config" (base64 of zlib's format), "modalias", and mostly "iommu_group", "numa_node", "vpd" and
/// "subsystems". For each function the record has the configuration space, the files that the
/// kernel derives from it, the real path, the IOMMU group and the NUMA node; it also has the RDMA
/// devices and network interfaces. The record is partial.
[[nodiscard]] Foreign<Record> record_of_rdma_topo(const SortedJson& dump);

}  // namespace hbmwire::tools::doctor
