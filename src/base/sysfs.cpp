// SPDX-License-Identifier: MIT
#include "base/sysfs.hpp"

#include <cstdlib>
#include <fstream>
#include <system_error>

namespace hbmwire {

std::filesystem::path sysfs_root() {
  const char* const path = std::getenv("SYSFS_PATH");
  return path != nullptr && *path != '\0' ? path : "/sys";
}

std::string read_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int numa_node_of_pci(const std::string& pci_address) {
  const auto text = read_line(sysfs_root() / "bus/pci/devices" / pci_address / "numa_node");
  return text.empty() ? -1 : std::atoi(text.c_str());
}

bool has_kernel_module(const char* name) {
  std::error_code ignored;
  return std::filesystem::exists(sysfs_root() / "module" / name, ignored);
}

}  // namespace hbmwire
