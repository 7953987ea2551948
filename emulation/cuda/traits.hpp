// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation::cuda {

/// Differences of the emulated GPUs and their driver from the default. HBMWIRE_EMULATION_CUDA is a
/// list of them, separated by commas. Tests change them by hbmwire_cuda_set_trait().
enum class Trait : std::uint8_t {
  integrated,      ///< the GPUs use the host's memory, as on Tegra
  closed_modules,  ///< NVIDIA's closed kernel modules: no dma-buf
  no_host_flush,   ///< cuFlushGPUDirectRDMAWrites is not supported
  old_driver,      ///< 12.4: does not know PCIe mappings
};

bool has_trait(Trait trait);

}  // namespace hbmwire::emulation::cuda
