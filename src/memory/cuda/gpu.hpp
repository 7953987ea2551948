// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/memory.hpp"
#include "hbmwire/settings.hpp"

#include "memory/cuda/driver.hpp"

namespace hbmwire::memory::cuda {

/// The driver's facts about a GPU, which need no context.
struct Gpu {
  int device = 0;  ///< CUdevice
  DeviceInfo info;
  bool integrated = false;  ///< it uses the host's memory
  bool dmabuf = false;      ///< the driver exports its memory as dma-bufs
  bool host_flush = false;  ///< cuFlushGPUDirectRDMAWrites works
};

/// All GPUs, by ordinal. Calls cuInit(). Errors: Stage::probe.
Result<std::vector<Gpu>> find_gpus(const Driver& driver);

/// The GPU with this name (an ordinal or a PCI address; empty: the first one). Errors:
/// Stage::probe.
Result<const Gpu*> choose_gpu(const std::vector<Gpu>& gpus, const std::string& name);

/// "libcuda.so.1, driver API 12.8".
std::string describe_library(const Driver& driver);

/// The path by which NICs reach a GPU's memory under the settings, or why they cannot.
struct Reach {
  Path path = Path::zero_copy;
  std::optional<Path> otherwise = {};  ///< as in AddressInfo
  std::optional<Error> no_dmabuf = {};
  std::optional<Error> refusal = {};
};

/// `capable`: whether NICs can reach this very memory (the application may have made virtual memory
/// without gpuDirectRDMACapable).
Reach reach_of(const Gpu& gpu, const Settings& settings, bool capable);

}  // namespace hbmwire::memory::cuda
