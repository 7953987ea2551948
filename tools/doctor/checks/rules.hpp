// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "tools/doctor/checks/finding.hpp"

/// The functions of all_checks(), by the files that they are in. docs/doctor-checks.md describes
/// what each of them judges, and how.
namespace hbmwire::tools::doctor::rules {

using Findings = std::vector<Finding>;

// kernel.cpp
Findings kernel(Evidence& machine);
Findings kernel_options(Evidence& machine);
Findings kernel_symbols(Evidence& machine);
Findings odp(Evidence& machine);

// rdma.cpp
Findings nics(Evidence& machine);
Findings rdma_core(Evidence& machine);
Findings nic_imports(Evidence& machine);

// drivers.cpp
Findings nvidia_driver(Evidence& machine);
Findings gaudi_driver(Evidence& machine);
Findings loaded_modules(Evidence& machine);
Findings peer_memory(Evidence& machine);

// nodes.cpp
Findings container(Evidence& machine);
Findings nodes(Evidence& machine);

// user.cpp
Findings limits(Evidence& machine);
Findings rdma_cgroup(Evidence& machine);
Findings rdma_namespace(Evidence& machine);
Findings fork(Evidence& machine);
Findings scatter_to_cqe(Evidence& machine);

// topology.cpp
Findings topology(Evidence& machine);

// pci_routing.cpp
Findings iommu(Evidence& machine);
Findings acs(Evidence& machine);
Findings ats(Evidence& machine);

// bars.cpp
Findings bars(Evidence& machine);

// pci_links.cpp
Findings link(Evidence& machine);
Findings payload(Evidence& machine);

// network.cpp
Findings port(Evidence& machine);
Findings gids(Evidence& machine);
Findings mtu(Evidence& machine);
Findings rdma_cm(Evidence& machine);

// congestion.cpp
Findings congestion(Evidence& machine);

// host.cpp
Findings numa(Evidence& machine);
Findings cpu(Evidence& machine);
Findings huge_pages(Evidence& machine);
Findings userfaultfd(Evidence& machine);

}  // namespace hbmwire::tools::doctor::rules
