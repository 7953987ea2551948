// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hbmwire::emulation {

/// A GPU of this process's node as sysfs describes it, and where its files are.
struct Gpu {
  unsigned index = 0;
  std::string pci_address;  ///< "dddd:bb:dd.f"
  std::uint16_t pci_device_id = 0;
  int numa_node = -1;
  bool large_bar = false;  ///< all its memory is in the PCI window (mem_info_vis_vram_total)
  std::filesystem::path directory;  ///< <node>/cuda0, <node>/rocm0, ...
};

/// The GPUs of a family ("cuda", "rocm"), by index. Empty outside an emulated world.
std::vector<Gpu> list_gpus(std::string_view family);

}  // namespace hbmwire::emulation
