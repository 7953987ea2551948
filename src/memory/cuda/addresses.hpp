// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "memory/cuda/driver.hpp"

namespace hbmwire::memory::cuda {

/// The driver's knowledge about memory.
struct Known {
  /// The allocation. For virtual memory: all mappings that hold the requested range.
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  std::uint64_t generation = 0;  ///< changes when other memory lies there; never 0
  int device = 0;                ///< CUdevice
  bool of_host = false;          ///< pinned memory of the host
  bool managed = false;
  bool rdma_capable = false;
  bool is_virtual = false;  ///< mapped by the application
  bool is_ours = false;     ///< a CudaDomain allocated it
};

/// The memory at [address, address + length_bytes), where length_bytes > 0; no value if CUDA does
/// not know it. Needs no current context, and leaves none. Errors: Stage::probe (a call failed);
/// Errc::invalid_argument (the range exceeds the allocation).
Result<std::optional<Known>> look_up(const Driver& driver, std::uint64_t address,
                                     std::uint64_t length_bytes);

}  // namespace hbmwire::memory::cuda
