// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace hbmwire::tools::perf::all {

/// Findings of doctor's checks about a NIC ("mlx5_0:1") and a device (a PCI address, or empty) of
/// this machine that are slow or bad: a sentence each. Reads files; takes up to some seconds.
std::vector<std::string> doctor_facts(const std::string& nic, const std::string& pci_address);

}  // namespace hbmwire::tools::perf::all
