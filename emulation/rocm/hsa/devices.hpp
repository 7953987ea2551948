// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "emulation/common/gpu_memory.hpp"
#include "emulation/common/gpus.hpp"

namespace hbmwire::emulation::rocm {

/// A GPU of this process's world. Its memory is opened on first use.
class Device {
 public:
  explicit Device(Gpu gpu) : gpu_(std::move(gpu)) {}

  [[nodiscard]] const Gpu& gpu() const { return gpu_; }

  /// Returns null with errno on failure. Kept until the process ends, because dma-bufs outlive
  /// hsa_shut_down().
  GpuMemory* memory();

 private:
  Gpu gpu_;
  std::mutex mutex_;
  std::unique_ptr<GpuMemory> memory_;
};

/// The GPUs of this process's world, found on first use.
const std::vector<std::unique_ptr<Device>>& devices();

}  // namespace hbmwire::emulation::rocm
