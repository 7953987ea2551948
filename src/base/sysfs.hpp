// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>

namespace hbmwire {

/// The folder in which the kernel shows devices and modules: /sys, or the value of libibverbs'
/// variable SYSFS_PATH, so that both see the same machine.
[[nodiscard]] std::filesystem::path sysfs_root();

/// The first line of a file; empty if the file cannot be read.
[[nodiscard]] std::string read_line(const std::filesystem::path& path);

/// The NUMA node of a PCI device ("dddd:bb:dd.f"); -1 if sysfs does not tell.
[[nodiscard]] int numa_node_of_pci(const std::string& pci_address);

/// Whether a module is loaded, or built in.
[[nodiscard]] bool has_kernel_module(const char* name);

}  // namespace hbmwire
