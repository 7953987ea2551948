// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/memory.hpp"
#include "hbmwire/settings.hpp"

#include "memory/cuda/driver.hpp"

namespace hbmwire::memory::cuda {

/// What the driver tells of a GPU without a context on it.
struct Gpu {
  int device = 0;  ///< CUdevice
  DeviceInfo info;
  bool integrated = false;  ///< its memory is the host's
  bool dmabuf = false;      ///< the driver exports dma-bufs of it
  bool host_flush = false;  ///< cuFlushGPUDirectRDMAWrites works
};

/// All GPUs, by ordinal. Calls cuInit(). Errors: Stage::probe.
Result<std::vector<Gpu>> find_gpus(const Driver& driver);

/// The one that `name` says (an ordinal, a PCI address; empty: the first). Errors: Stage::probe.
Result<const Gpu*> choose_gpu(const std::vector<Gpu>& gpus, const std::string& name);

/// "libcuda.so.1, driver API 12.8".
std::string describe_library(const Driver& driver);

/// How NICs reach a GPU's memory by the settings, and why they can't.
struct Reach {
  Path path = Path::zero_copy;
  std::optional<Path> otherwise = {};  ///< as AddressInfo's
  std::optional<Error> no_dmabuf = {};
  std::optional<Error> refusal = {};
};

/// `capable`: whether this very memory can be reached by NICs (virtual memory may have been made
/// without).
Reach reach_of(const Gpu& gpu, const Settings& settings, bool capable);

}  // namespace hbmwire::memory::cuda
