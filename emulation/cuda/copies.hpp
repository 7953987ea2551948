// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/cuda/runtime.hpp"

namespace hbmwire::emulation::cuda {

struct CopyRequest {
  std::uint64_t to = 0;
  std::uint64_t from = 0;
  std::uint64_t bytes = 0;
};

struct FillRequest {
  std::uint64_t to = 0;
  std::uint32_t value = 0;
  std::uint32_t element_bytes = 1;  ///< 1 or 4
  std::uint64_t elements = 0;
};

/// The ends of a copy that must be GPU memory.
enum class Between : std::uint8_t { anything, host_to_device, device_to_host, devices };

/// cuMemcpy... and cuMemcpy...Async. As in the driver's documentation, a synchronous copy may
/// return before its bytes are in the GPU's memory: a copy of up to 64 KiB from pageable memory,
/// and a copy between GPUs, unless CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is set. An asynchronous copy
/// from pageable memory has finished with that memory when it returns.
CUresult copy(Runtime& runtime, Context& context, const CopyRequest& request, Between between);
CUresult copy_async(Runtime& runtime, Context& context, const CopyRequest& request, Between between,
                    CUstream stream);

CUresult fill(Runtime& runtime, Context& context, const FillRequest& request);
CUresult fill_async(Runtime& runtime, Context& context, const FillRequest& request,
                    CUstream stream);

}  // namespace hbmwire::emulation::cuda
