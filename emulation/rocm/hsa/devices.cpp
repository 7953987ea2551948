// SPDX-License-Identifier: MIT
#include "emulation/rocm/hsa/devices.hpp"

namespace hbmwire::emulation::rocm {

GpuMemory* Device::memory() {
  const std::lock_guard lock(mutex_);
  if (!memory_) memory_ = GpuMemory::open(gpu_.directory);
  return memory_.get();
}

const std::vector<std::unique_ptr<Device>>& devices() {
  // Never destroyed: threads may still run while the process ends.
  static const auto* const kFound = [] {
    auto* list = new std::vector<std::unique_ptr<Device>>;
    for (auto& gpu : list_gpus("rocm")) list->push_back(std::make_unique<Device>(std::move(gpu)));
    return list;
  }();
  return *kFound;
}

}  // namespace hbmwire::emulation::rocm
