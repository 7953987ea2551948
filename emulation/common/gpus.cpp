// SPDX-License-Identifier: MIT
#include "emulation/common/gpus.hpp"

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "emulation/common/first_line.hpp"
#include "emulation/common/world.hpp"

namespace hbmwire::emulation {

std::vector<Gpu> list_gpus(std::string_view family) {
  std::vector<Gpu> found;
  const auto world = World::from_environment();
  if (!world) return found;
  std::error_code failure;
  std::filesystem::directory_iterator entries(world->sysfs() / "bus/pci/devices", failure);
  for (; !failure && entries != std::filesystem::directory_iterator{}; entries.increment(failure)) {
    const auto& path = entries->path();
    const std::string name = first_line(path / "emulated_as");
    if (!name.starts_with(family)) continue;
    Gpu gpu;
    gpu.index = static_cast<unsigned>(std::strtoul(name.c_str() + family.size(), nullptr, 10));
    gpu.pci_address = path.filename().string();
    gpu.pci_device_id =
        static_cast<std::uint16_t>(std::strtoul(first_line(path / "device").c_str(), nullptr, 16));
    gpu.numa_node = std::atoi(first_line(path / "numa_node").c_str());
    const std::string visible = first_line(path / "mem_info_vis_vram_total");
    gpu.large_bar = !visible.empty() && visible == first_line(path / "mem_info_vram_total");
    gpu.directory = world->node / name;
    found.push_back(std::move(gpu));
  }
  std::ranges::sort(found, {}, &Gpu::index);
  return found;
}

}  // namespace hbmwire::emulation
