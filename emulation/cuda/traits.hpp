// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation::cuda {

/// How the emulated GPUs and their driver differ from the default, in HBMWIRE_EMULATION_CUDA as a
/// list with commas; tests change them by hbmwire_cuda_set_trait().
enum class Trait : std::uint8_t {
  integrated,      ///< the GPUs have no memory but the host's, as Tegra
  closed_modules,  ///< NVIDIA's closed kernel modules: no dma-buf
  no_host_flush,   ///< cuFlushGPUDirectRDMAWrites is not supported
  old_driver,      ///< 12.4: knows no PCIe mapping
};

bool has_trait(Trait trait);

}  // namespace hbmwire::emulation::cuda
