// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "memory/cuda/driver.hpp"

namespace hbmwire::memory::cuda {

/// What the driver knows of memory.
struct Known {
  std::uint64_t base = 0;   ///< of the allocation; of virtual memory: of all mappings that hold the
  std::uint64_t bytes = 0;  ///< range that was asked for
  std::uint64_t generation = 0;  ///< differs when what lies there differs; never 0
  int device = 0;                ///< CUdevice
  bool of_host = false;          ///< pinned memory of the host
  bool managed = false;
  bool rdma_capable = false;
  bool is_virtual = false;  ///< mapped by the application
  bool is_ours = false;     ///< a CudaDomain allocated it
};

/// What lies at [address, address + length_bytes), length_bytes > 0. Nothing where CUDA knows
/// nothing. Needs no current context, and leaves none. Errors: Stage::probe: a call failed;
/// Errc::invalid_argument: the range leaves the allocation.
Result<std::optional<Known>> look_up(const Driver& driver, std::uint64_t address,
                                     std::uint64_t length_bytes);

}  // namespace hbmwire::memory::cuda
