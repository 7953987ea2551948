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

/// What of a copy must be a GPU's memory.
enum class Between : std::uint8_t { anything, host_to_device, device_to_host, devices };

/// cuMemcpy... and cuMemcpy...Async. As the driver's documentation says of each kind of memory, a
/// synchronous copy may return before its bytes are in the GPU's memory: of up to 64 KiB of
/// pageable memory, and between GPUs' memories, unless CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is set; and
/// an asynchronous one of pageable memory is done with that memory when it returns.
CUresult copy(Runtime& runtime, Context& context, const CopyRequest& request, Between between);
CUresult copy_async(Runtime& runtime, Context& context, const CopyRequest& request, Between between,
                    CUstream stream);

CUresult fill(Runtime& runtime, Context& context, const FillRequest& request);
CUresult fill_async(Runtime& runtime, Context& context, const FillRequest& request,
                    CUstream stream);

}  // namespace hbmwire::emulation::cuda
